"""The figures of the service levels of goals, and the time-limited waivers that a builder may write."""

from datetime import date, timedelta
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from remit.contracts.base import SMALL, Contract, Many, VersionOne
from remit.parsing import Bounds

FigureName = Literal[
    "agent_dispatch_p95_ms",
    "agent_dispatch_p99_ms",
    "execution_error_rate",
    "idempotency_duplicate_side_effect_rate",
]
NEVER_WAIVED: Final = "idempotency_duplicate_side_effect_rate"
WAIVERS_NAME: Final = "slo_waivers.yaml"
LONGEST_WAIVER: Final = timedelta(days=90)


def _check_date(text: str) -> str:
    date.fromisoformat(text)
    return text


def _check_printable(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise ValueError("the text must not be empty, and must have only printable characters")
    return text


Day = Annotated[str, Field(max_length=10, pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"), AfterValidator(_check_date)]
"""A day in UTC, such as 2026-01-31."""

Words = Annotated[str, Field(min_length=1, max_length=500), AfterValidator(_check_printable)]


class SloWaiver(Contract):
    """One breach that a builder accepts until a day, which is the last day on which the waiver is valid."""

    figure: FigureName
    limit: Annotated[float, Field(ge=0, le=1e9)]
    """The worst value that is accepted: milliseconds for a time, a fraction of 1 for a rate."""
    approved_by: Words
    """The name of the builder who is responsible."""
    reason: Words
    issued: Day
    ends: Day

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        if self.figure == NEVER_WAIVED:
            raise ValueError(f"{NEVER_WAIVED} cannot be waived, because an effect that happens twice is always a fault")
        if self.figure == "execution_error_rate" and self.limit > 1:
            raise ValueError(
                f"the limit of a rate is a fraction between 0 and 1, and not {self.limit:g}. For {self.limit:g} % write"
                f" {self.limit / 100:g}"
            )
        life = date.fromisoformat(self.ends) - date.fromisoformat(self.issued)
        if not timedelta(0) <= life <= LONGEST_WAIVER:
            raise ValueError(f"a waiver must end on the day of its issue or at most {LONGEST_WAIVER.days} days later")
        return self


class SloWaivers(Contract):
    """The content of slo_waivers.yaml."""

    bounds: ClassVar[Bounds] = SMALL

    version: VersionOne
    waivers: Annotated[Many[SloWaiver], Field(max_length=100)]

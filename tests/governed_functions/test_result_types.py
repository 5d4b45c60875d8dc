"""Values of ordinary types are stored. A value that cannot be stored never repeats the effect."""

import enum
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, NamedTuple, get_args
from uuid import UUID

import pytest
from pydantic import BaseModel

from remit.calls.errors import NEXT_STEPS
from remit.contracts.calls.call import CallEffect, CallResult
from remit.governed_functions import governed
from tests.governed_functions.customer_workspace import Place, result_of


class Colour(enum.Enum):
    RED = "red"


class Order(BaseModel):
    number: int
    at: datetime
    total: Decimal


@dataclass
class Line:
    item: str
    colour: Colour


class Point(NamedTuple):
    x: int
    y: Decimal


NUMBERS: Final = itertools.count(1)
AT: Final = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)
CASES: Final[dict[str, tuple[Any, Any]]] = {
    "pydantic": (
        Order(number=1, at=AT, total=Decimal("9.90")),
        {"number": 1, "at": "2026-01-31T09:30:00Z", "total": "9.90"},
    ),
    "dataclass": (Line("pen", Colour.RED), {"item": "pen", "colour": "red"}),
    "datetime": (AT, "2026-01-31T09:30:00+00:00"),
    "date": (date(2026, 1, 31), "2026-01-31"),
    "time": (time(9, 30), "09:30:00"),
    "decimal": (Decimal("1.10"), "1.10"),
    "enum": (Colour.RED, "red"),
    "uuid": (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    "path": (Path("a/b"), "a/b"),
    "bytes": (b"ab", "YWI="),
    "timedelta": (timedelta(seconds=90), 90.0),
    "set": ({1}, [1]),
    "frozen set": (frozenset({1}), [1]),
    "keys that are dates": ({date(2026, 1, 31): Decimal(1)}, {"2026-01-31": "1"}),
    "models in a list": (
        [Order(number=1, at=AT, total=Decimal("9.90"))],
        [{"number": 1, "at": "2026-01-31T09:30:00Z", "total": "9.90"}],
    ),
    "tuple": ((1, "a"), [1, "a"]),
    "named tuple": (Point(1, Decimal(2)), {"x": 1, "y": "2"}),
    "nested": (
        {"lines": [Line("pen", Colour.RED)], "at": AT},
        {
            "lines": [{"item": "pen", "colour": "red"}],
            "at": "2026-01-31T09:30:00+00:00",
        },
    ),
}


def declared(place: Place, returns: Callable[[], Any]) -> tuple[Any, str]:
    name = f"crm.order{next(NUMBERS)}"

    @governed(place.workspace, name)
    def order() -> Any:
        """Order something."""
        place.calls.append(name)
        return returns()

    return order, name


def approved(place: Place, order: Any, token: str, name: str) -> CallResult:
    answer = order.call(token=token, key=name)
    if answer.waiting is not None:
        place.yes(answer)
        answer = order.call(token=token, key=name)
    return result_of(answer)


@pytest.mark.req("GW-01")
@pytest.mark.parametrize("name", CASES)
def test_an_ordinary_result_is_stored(place: Place, name: str) -> None:
    value, stored = CASES[name]
    order, called = declared(place, lambda: value)
    token = place.token(called)
    result = approved(place, order, token, called)
    assert (result.status, result.effect, result.value) == ("SUCCESS", "done", stored)
    assert approved(place, order, token, called) == result
    assert place.calls.count(called) == 1


def _endless() -> Any:
    made: list[Any] = []
    made.append(made)
    return made


class Unwritable(BaseModel):
    inside: Any


UNSTORABLE: Final[dict[str, Callable[[], Any]]] = {
    "object": object,
    "cycle": _endless,
    "large": lambda: "x" * (1 << 20),
    "keys": lambda: {1: 2},
    "a model that cannot be written": lambda: Unwritable(inside=object()),
    "not a number": lambda: float("nan"),
    "half a character": lambda: "\ud800",
    "two keys that become one": lambda: {b"a": 1, "YQ==": 2},
}


@pytest.mark.req("GW-07")
@pytest.mark.parametrize("returns", UNSTORABLE.values(), ids=UNSTORABLE)
def test_a_result_that_cannot_be_stored_is_reported_as_done_and_never_repeated(
    place: Place, returns: Callable[[], Any]
) -> None:
    order, called = declared(place, returns)
    token = place.token(called)
    result = approved(place, order, token, called)
    assert (result.effect, result.error is None) == ("done", False)
    assert result.error is not None
    assert result.error.what.startswith("done, result could not be stored")
    assert "again under another key" not in result.error.next_step
    assert result.error.next_step.startswith("Do not call it again: its effect took place.")
    assert approved(place, order, token, called) == result
    assert place.calls.count(called) == 1


PUT_OFF: Final[dict[str, Callable[[], Any]]] = {
    "generator": lambda: (each for each in [1]),
    "map": lambda: map(str, [1]),
    "in a tuple": lambda: (1, map(str, [1])),
    "in a dict": lambda: {"sent": map(str, [1])},
}


@pytest.mark.req("GW-07")
@pytest.mark.parametrize("returns", PUT_OFF.values(), ids=PUT_OFF)
def test_a_deferred_result_is_not_reported_as_done(place: Place, returns: Callable[[], Any]) -> None:
    order, called = declared(place, returns)
    token = place.token(called)
    result = approved(place, order, token, called)
    assert result.error is not None
    assert (result.effect, result.error.code) == ("unknown", "fate_unknown")
    assert result.error.next_step.startswith("Check whether the change was made.")
    assert approved(place, order, token, called) == result
    assert place.calls.count(called) == 1


class Silent(Exception):
    def __str__(self) -> str:
        raise ValueError(f"{self.args[0]} is not to be said")


@pytest.mark.req("GW-07")
def test_an_error_whose_message_fails_shows_no_private_argument(place: Place) -> None:
    @governed(place.workspace, "crm.silent", private=["code"])
    def silent(code: str) -> None:
        """Fail without words."""
        raise Silent(code)

    token = place.token("crm.silent")
    place.yes(silent.call(token=token, key="k", code="hunter2secret"))
    result = result_of(silent.call(token=token, key="k", code="hunter2secret"))
    assert result.error is not None
    assert "hunter2secret" not in result.error.what
    assert "Silent: its message cannot be read" in result.error.what
    assert result.effect == "unknown"


@pytest.mark.req("GW-07")
def test_only_a_call_without_an_effect_may_be_made_again() -> None:
    assert set(NEXT_STEPS) == set(get_args(CallEffect))
    repeat = {effect for effect, step in NEXT_STEPS.items() if step.startswith("Call it again")}
    assert repeat == {"none", "undone"}

"""What is to be run: the texts of a plan, as the host hands them over."""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from remit.core.errors import Reason, RefusedError, UsageError
from remit.effects.context import EffectContext, read_given
from remit.effects.postgres.rows import FORMATS

TEXTS: Final = "texts"
MAX_TEXTS_BYTES: Final = 64 << 20


class RequestedText(NamedTuple):
    """One text of SQL, as it was asked for."""

    name: str
    text: str
    parameters: Mapping[str, Any]
    expect_results: bool
    results: str | None
    """The spot of the file that its rows are saved to."""
    form: str | None


class RequestedAction(NamedTuple):
    """One action of the plan: one text, or several."""

    number: int
    texts: tuple[RequestedText, ...]


def read_actions(work: EffectContext) -> tuple[RequestedAction, ...]:
    actions: dict[int, list[RequestedText]] = {}
    for one in json.loads(read_given(work, TEXTS, MAX_TEXTS_BYTES)):
        if one["form"] is not None and one["form"] not in FORMATS:
            raise RefusedError(
                Reason.CAPABILITY_UNSUPPORTED,
                f"rows of a PostgreSQL database are saved as {' or '.join(FORMATS)}, not as {one['form']}",
                where=one["name"],
                next_step="Save them to a file that ends in .csv or .json.",
            )
        if (one["results"] is None) != (one["form"] is None):
            raise UsageError(Reason.MISUSE, "results need a file, and a file for them its format", where="results")
        text = RequestedText(
            one["name"], one["text"], one["parameters"], one["expect_results"], one["results"], one["form"]
        )
        actions.setdefault(int(one["number"]), []).append(text)
    return tuple(RequestedAction(number, tuple(texts)) for number, texts in actions.items())

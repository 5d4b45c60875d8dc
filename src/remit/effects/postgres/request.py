"""The SQL texts of a plan, as the host sends them."""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from remit.core.errors import Reason, RefusedError, UsageError
from remit.effects.context import EffectContext, read_given
from remit.effects.postgres.rows import FORMATS

TEXTS: Final = "texts"
MAX_TEXTS_BYTES: Final = 64 << 20


class RequestedText(NamedTuple):
    """One text of SQL to run."""

    name: str
    text: str
    parameters: Mapping[str, Any]
    expect_results: bool
    results: str | None
    """The name of the file handle to which its rows are saved."""
    form: str | None


class RequestedAction(NamedTuple):
    """One action of the plan, with one or several texts."""

    number: int
    texts: tuple[RequestedText, ...]


def read_actions(work: EffectContext) -> tuple[RequestedAction, ...]:
    actions: dict[int, list[RequestedText]] = {}
    for one in json.loads(read_given(work, TEXTS, MAX_TEXTS_BYTES)):
        if one["form"] is not None and one["form"] not in FORMATS:
            raise RefusedError(
                Reason.CAPABILITY_UNSUPPORTED,
                f"rows of a PostgreSQL database can be saved as {' or '.join(FORMATS)}, not as {one['form']}",
                where=one["name"],
                next_step="Save them to a file that ends in .csv or .json.",
            )
        if (one["results"] is None) != (one["form"] is None):
            raise UsageError(Reason.MISUSE, "a text with saved rows needs both a file and a format", where="results")
        text = RequestedText(
            one["name"], one["text"], one["parameters"], one["expect_results"], one["results"], one["form"]
        )
        actions.setdefault(int(one["number"]), []).append(text)
    return tuple(RequestedAction(number, tuple(texts)) for number, texts in actions.items())

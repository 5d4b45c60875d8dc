"""What is to be run: the texts of a plan, as the host hands them over."""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from remit.core.errors import Misuse, Reason, Refused
from remit.effects.context import Work, read_given
from remit.effects.postgres.rows import FORMATS

TEXTS: Final = "texts"
MAX_TEXTS_BYTES: Final = 64 << 20


class Text(NamedTuple):
    """One text of SQL, as it was asked for."""

    name: str
    text: str
    parameters: Mapping[str, Any]
    expect_results: bool
    results: str | None
    """The spot of the file that its rows are saved to."""
    form: str | None


class Action(NamedTuple):
    """One action of the plan: one text, or several."""

    number: int
    texts: tuple[Text, ...]


def read_actions(work: Work) -> tuple[Action, ...]:
    actions: dict[int, list[Text]] = {}
    for one in json.loads(read_given(work, TEXTS, MAX_TEXTS_BYTES)):
        if one["form"] is not None and one["form"] not in FORMATS:
            raise Refused(
                Reason.CAPABILITY_UNSUPPORTED,
                f"rows of a PostgreSQL database are saved as {' or '.join(FORMATS)}, not as {one['form']}",
                where=one["name"],
                next_step="Save them to a file that ends in .csv or .json.",
            )
        if (one["results"] is None) != (one["form"] is None):
            raise Misuse(Reason.MISUSE, "results need a file, and a file for them its format", where="results")
        text = Text(one["name"], one["text"], one["parameters"], one["expect_results"], one["results"], one["form"])
        actions.setdefault(int(one["number"]), []).append(text)
    return tuple(Action(number, tuple(texts)) for number, texts in actions.items())

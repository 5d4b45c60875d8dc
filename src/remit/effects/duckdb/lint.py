"""Finds SQL texts that would be refused for any content of the database, before a plan uses them.

Opens no database. The rules are the same as before a run.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from remit.core.errors import RefusedError
from remit.effects.context import Effect, EffectContext, read_given
from remit.effects.duckdb.expected_rows import require_one_select
from remit.effects.duckdb.statements import analyse, bind, require_reading

TEXTS: Final = "texts"
MAX_TEXTS_BYTES: Final = 64 << 20
MAX_PROBLEMS: Final = 200
_LONGEST: Final = 400


class LintCheck:
    """The effect `CHECK`. Returns the problems, each with the number of its text, counted from 0."""

    def run(self, work: EffectContext) -> dict[str, Any]:
        problems: list[dict[str, Any]] = []
        for number, text in enumerate(json.loads(read_given(work, TEXTS, MAX_TEXTS_BYTES))):
            try:
                _require_sound(text)
            except RefusedError as problem:
                message = {"what": problem.what[:_LONGEST], "next_step": problem.next_step[:_LONGEST]}
                problems.append({"number": number, **message})
            if len(problems) == MAX_PROBLEMS:
                break
        return {"problems": problems}

    def settle(self, work: EffectContext, *, finish: bool) -> dict[str, Any] | None:  # noqa: ARG002
        """Do nothing: this effect only reads."""
        return None


def _require_sound(text: Mapping[str, Any]) -> None:
    statements = analyse(text["text"])
    bind(statements, text["parameters"])
    if text["reads_only"]:
        require_reading(statements)
    if text["one_select"]:
        require_one_select(statements)


CHECK: Final[Effect] = LintCheck()

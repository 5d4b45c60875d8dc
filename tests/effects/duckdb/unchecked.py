"""The engine without the check of the text, so that only the engine's settings and the sandbox limit it.

With `bare` the settings are left out as well, so that only the sandbox limits it. The zygote loads this as an effect.
"""

from typing import Any, Final

from remit.effects.context import Effect, EffectContext
from remit.effects.duckdb.engine import EngineInputs, run_statements
from remit.effects.duckdb.instance import ENGINE
from remit.effects.duckdb.statements import DuckdbStatement


class Unchecked:
    """Splits the text into statements, and runs each without a check."""

    def run(self, work: EffectContext) -> dict[str, Any]:
        asked = EngineInputs(work.inputs["text"], {}, False, work.inputs["alias"], False, None, 100_000_000, 20)
        if work.inputs.get("bare"):
            return {"seen": str(ENGINE.cursor().execute(asked.text).fetchall())}
        statements = [
            DuckdbStatement(number, "CALL", one.query, (), (), (), False, False, "")
            for number, one in enumerate(ENGINE.extract_statements(asked.text), start=1)
        ]
        return run_statements(work, asked, statements)

    def settle(self, work: EffectContext, *, finish: bool) -> dict[str, Any] | None:  # noqa: ARG002
        return None


UNCHECKED: Final[Effect] = Unchecked()

"""An effect that does nothing, for demos, probes and tests of the engine: every step runs, and nothing changes.

Runs in the sandboxed process, so it imports little. `capabilities` declares it.
"""

from typing import Any, Final

from remit.effects.context import Effect, EffectContext


class NoEffect:
    def run(self, work: EffectContext) -> dict[str, Any]:  # noqa: ARG002 - every effect receives its context
        return {"result_summary": {}, "undo_metadata": {}}

    def settle(self, work: EffectContext, *, finish: bool) -> dict[str, Any] | None:
        """Return the output with `finish`. There is nothing to undo."""
        return self.run(work) if finish else None


NO_EFFECT: Final[Effect] = NoEffect()

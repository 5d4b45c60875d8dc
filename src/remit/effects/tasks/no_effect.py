"""An effect that does nothing: the whole road, with nothing at its end. For demos, probes and tests of the road.

Runs in the sandboxed process, so it imports little; `no_effect_capability` declares it.
"""

from typing import Any, Final

from remit.effects.context import Effect, EffectContext


class NoEffect:
    def run(self, work: EffectContext) -> dict[str, Any]:  # noqa: ARG002 - an effect is given its work
        return {"result_summary": {}, "undo_metadata": {}}

    def settle(self, work: EffectContext, *, finish: bool) -> dict[str, Any] | None:
        """Nothing done is nothing to undo, and doing it is finishing it."""
        return self.run(work) if finish else None


NO_EFFECT: Final[Effect] = NoEffect()

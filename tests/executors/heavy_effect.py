"""An effect that loads what it must not reach."""

from typing import Any

import remit.store.claims  # noqa: F401 - the fault
from remit.effects.context import EffectContext


class _Heavy:
    def run(self, work: EffectContext) -> dict[str, Any]:  # noqa: ARG002 - the protocol
        return {"result_summary": {}, "undo_metadata": {}}

    def settle(self, work: EffectContext, *, finish: bool) -> dict[str, Any] | None:  # noqa: ARG002 - the protocol
        return None


HEAVY = _Heavy()

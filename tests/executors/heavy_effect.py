"""An effect that loads what it must not reach."""

from typing import Any

import remit.store.claims  # noqa: F401 - the fault
from remit.effects.context import Work


class _Heavy:
    def run(self, work: Work) -> dict[str, Any]:  # noqa: ARG002 - the protocol
        return {"result_summary": {}, "undo_metadata": {}}

    def settle(self, work: Work, *, finish: bool) -> dict[str, Any] | None:  # noqa: ARG002 - the protocol
        return None


HEAVY = _Heavy()

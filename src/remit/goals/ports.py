"""The interface between the SimulationExecutor and the operations that run bound actions.

The agent core never signs a lease, an envelope or a token. The implementation of this interface requests them from the
authority, after the gates. It is passed in as an argument, so the core has no other way to reach an operation.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from pydantic import JsonValue

from remit.contracts.base import MAX_JSON_DEPTH, MAX_JSON_VALUES, bounded_json_validator
from remit.contracts.goals.dispatch import DispatchEnvelope
from remit.contracts.goals.simulation import Simulation
from remit.core.canonical import canonical_bytes
from remit.core.errors import RefusedError
from remit.goals.binding.binding import BoundAction

MAX_PAYLOAD: Final = 256 << 10
"""Far below the limit of a ledger entry, because masking can make a text longer."""
Effect = Literal["NONE", "UNKNOWN"]
"""The effect of a failed action: surely none, or not known. Only after `NONE`, the action may be tried again."""
_BOUNDED: Final = bounded_json_validator(MAX_JSON_DEPTH, MAX_JSON_VALUES)


@dataclass(frozen=True, slots=True)
class BoundActionResult:
    """The result of a bound action. The payload is in the form of its own operation.

    `effect` is set for a failure, and `outputs` for a success. `outputs` has the values for later steps of the goal.
    """

    succeeded: bool
    payload: Mapping[str, Any]
    audit_refs: tuple[str, ...]
    timed_out: bool = False
    effect: Effect | None = None
    outputs: Mapping[str, JsonValue] = field(default_factory=dict)


def truncate_payload(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return a payload that fits into the ledger. A larger one is reduced to its type.

    The audit refs name the records of the action's own operation, which have the full result.
    """
    tree = dict(payload)
    try:
        if len(canonical_bytes(_BOUNDED(tree))) <= MAX_PAYLOAD:
            return tree
    except (ValueError, RefusedError):
        pass
    return {"type": str(tree.get("type", "")), "left_out": "too large or too deep for the ledger; see audit_refs"}


class ActionRunner(Protocol):
    """Prepares and runs bound actions, and knows which of them were started."""

    def prepare(
        self,
        simulation: Simulation,
        bound: BoundAction,
        envelope: DispatchEnvelope,
        key: str,
        confirmed: str | None = None,
    ) -> dict[str, Any]:
        """Return everything that is needed to run the action, as JSON, without any effect. Run twice, it acts once.

        The id of the action follows from `key`, the key of the attempt, so each attempt has an action of its own. An
        action whose effect is not the `confirmed` one any more is refused.
        """

    def preview(self, bound: BoundAction, tenant_id: str, key: str) -> dict[str, Any] | None:
        """Return what the action would do, for the person who is asked to confirm it. None if that is not shown."""

    def has_started(self, prepared: Mapping[str, Any]) -> bool:
        """Tell whether the operation has recorded an intent, an outcome or a refusal of the action."""

    def run(self, prepared: Mapping[str, Any], seconds: float) -> BoundActionResult:
        """Run the action, continue it, or return its stored outcome."""

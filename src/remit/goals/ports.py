"""What the SimulationExecutor needs of the doors below the goal: to make ready, to run, and to know what was begun.

The agent core never signs a lease, an envelope or a token: whoever implements this asks the authority for them, after
the gates. It is handed in, so nothing in the core can reach a door by any other way.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from remit.contracts.base import MAX_JSON_DEPTH, MAX_JSON_VALUES, bounded_json_validator
from remit.contracts.goals.dispatch import DispatchEnvelope
from remit.contracts.goals.simulation import Simulation
from remit.core.canonical import canonical_bytes
from remit.core.errors import RefusedError
from remit.goals.binding.binding import BoundAction

MAX_PAYLOAD: Final = 256 << 10
"""Far below what an entry may have: masked, a text can be longer than it was."""
_BOUNDED: Final = bounded_json_validator(MAX_JSON_DEPTH, MAX_JSON_VALUES)


@dataclass(frozen=True, slots=True)
class BoundActionResult:
    """How a bound action came to its end, in its own door's words."""

    succeeded: bool
    payload: Mapping[str, Any]
    audit_refs: tuple[str, ...]
    timed_out: bool = False


def truncate_payload(payload: Mapping[str, Any]) -> dict[str, Any]:
    """What a record can hold. Of more only the kind: the whole stands with its own door, by the audit refs."""
    tree = dict(payload)
    try:
        if len(canonical_bytes(_BOUNDED(tree))) <= MAX_PAYLOAD:
            return tree
    except (ValueError, RefusedError):
        pass
    return {"type": str(tree.get("type", "")), "left_out": "too large or too deep for the record; see audit_refs"}


class ActionRunner(Protocol):
    def prepare(self, simulation: Simulation, bound: BoundAction, envelope: DispatchEnvelope) -> dict[str, Any]:
        """Everything that running it needs, as JSON: so exact that running it twice does it once. Does nothing yet."""

    def has_started(self, prepared: Mapping[str, Any]) -> bool:
        """Whether its door has recorded an intent, an outcome or a refusal of it."""

    def run(self, prepared: Mapping[str, Any], seconds: float) -> BoundActionResult:
        """Do it, or go on with it, or give back what came of it before."""

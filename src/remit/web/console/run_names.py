"""What a run is called in a list. The plan of a goal has a digest for its name, and nobody knows a thing by that."""

import re
from typing import TYPE_CHECKING, Final

from remit.contracts.services.ledger import EntryFilter
from remit.contracts.services.plans import RunView
from remit.core.ids import DEFAULT_TENANT
from remit.identity.callers import Caller

if TYPE_CHECKING:
    from remit.services.services import Services

_OF_GOAL: Final = re.compile(r"goal-[0-9a-f]{48}")
_SIMULATION: Final = "simulation "


def get_run_name(services: "Services", caller: Caller, run: RunView) -> str:
    """Of a goal, the simulation that it was done by, as the record of its approval names that."""
    if not _OF_GOAL.fullmatch(run.plan_id):
        return run.plan_id or "not known"
    actor = _actor(services, caller, "envelope.issued", run.envelope_id)
    return f"goal: {actor.removeprefix(_SIMULATION)}" if actor.startswith(_SIMULATION) else run.plan_id


def find_applier(services: "Services", caller: Caller, run: RunView) -> str:
    """Whoever had it carried out, as the record of its beginning says. Empty where nobody was named."""
    return _actor(services, caller, "plan.intent", run.envelope_id)


def _actor(services: "Services", caller: Caller, kind: str, envelope_id: str) -> str:
    wanted = EntryFilter.from_tree({"kind": kind, "correlation_id": envelope_id}, source="the list of runs")
    found = services.ledger.list_entries(caller, DEFAULT_TENANT, wanted, None, 1).items
    return (found[0].entry.actor or "") if found and found[0].problem is None else ""

"""What a run is called in a list. The plan of a goal has a digest for its name, and nobody knows a thing by that."""

import re
from typing import TYPE_CHECKING, Final

from remit.contracts.desk_plans import RunView
from remit.contracts.desk_record import EntryFilter
from remit.desk.callers import Caller
from remit.ids import DEFAULT_TENANT

if TYPE_CHECKING:
    from remit.desk.desk import Desk

_OF_GOAL: Final = re.compile(r"goal-[0-9a-f]{48}")
_SIMULATION: Final = "simulation "


def name_of(desk: "Desk", caller: Caller, run: RunView) -> str:
    """Of a goal, the simulation that it was done by, as the record of its approval names that."""
    if not _OF_GOAL.fullmatch(run.plan_id):
        return run.plan_id or "not known"
    issued = EntryFilter.from_tree(
        {"kind": "envelope.issued", "correlation_id": run.envelope_id}, source="the list of runs"
    )
    found = desk.record.entries(caller, DEFAULT_TENANT, issued, None, 1).items
    actor = (found[0].entry.actor or "") if found else ""
    return f"goal: {actor.removeprefix(_SIMULATION)}" if actor.startswith(_SIMULATION) else run.plan_id

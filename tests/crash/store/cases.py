"""Which work is killed at which point, how often it has passed there before, and how to run it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest
from _pytest.mark import ParameterSet

from remit.core.faultpoints import FAULT_POINTS
from tests.crash.store.crash_workspace import Place
from tests.support import preloaded
from tests.support.child_process import ChildExit, Fault, run_child

MakePlace = Callable[[str], Place]
Points = Mapping[str, tuple[int, ...]]

WORKLOAD: Final = Path(__file__).with_name("workload.py")
BOTH: Final = ("sqlite", "postgresql")

APPEND_POINTS: Points = {
    "append.begun": (1, 3),
    "append.inserted": (1, 3),
    "append.signed": (1, 4),
    "append.before_commit": (1, 3),
    "append.committed": (1, 3),
    "append.anchored": (1, 4),
}
# Two tenants, so two anchors come into being.
ANCHOR_POINTS: Points = {
    "durable.written": (1, 2),
    "durable.synced": (1,),
    "durable.renamed": (1, 2),
    "durable.directory_synced": (1, 2),
}
MIGRATION_POINTS: Points = {
    "migration.begun": (1,),
    "migration.statement": (1, 7, 20),
    "migration.before_commit": (1,),
    "migration.committed": (1,),
}
CLAIM_POINTS: Points = {"claim.before_commit": (1, 3)}
# Four private keys, then the keyring.
KEY_POINTS: Points = {
    "durable.written": (1, 5),
    "durable.synced": (2, 5),
    "durable.renamed": (3, 5),
    "durable.directory_synced": (4, 5),
    "keys.private_written": (1, 2, 4),
    "keys.keyring_written": (1,),
}
ROTATION_POINTS: Points = {
    "durable.written": (1, 2),
    "durable.synced": (1, 2),
    "durable.renamed": (1, 2, 3),
    "durable.directory_synced": (1, 2),
    "keys.private_written": (1, 2),
    "keys.keyring_written": (1, 2),
}
CLOCK_POINTS: Points = {"clock.accepting": (1,), "clock.accepted": (1,)}

_BY_OTHERS: Final = (
    "effect.",
    "snapshot.",
    "backup.",
    "plan.",
    "rollback.",
    "prune.",
    "sql.",
    "elsewhere.",
    "pipeline.",
    "browser.",
    "call.",
    "goal.",
    "proposal.",
    "simulation.",
    "people.",
)
EFFECT_POINTS: Final = frozenset(point for point in FAULT_POINTS if point.startswith(_BY_OTHERS))
COVERED_ELSEWHERE: Final = EFFECT_POINTS | frozenset(
    {
        "adopt.renamed",
        "road.checkpoint_made",
        "road.intent_recorded",
        "road.taken_over",
        "road.settled",
        "road.undone",
        "road.noted",
        "road.effect_done",
        "road.published",
        "road.outcome_recorded",
    }
)
"""Killed by the tests of the road, of making a workspace, of effects, snapshots, plans, the browser and goals."""

TABLES: Final = (
    APPEND_POINTS,
    ANCHOR_POINTS,
    MIGRATION_POINTS,
    CLAIM_POINTS,
    KEY_POINTS,
    ROTATION_POINTS,
    CLOCK_POINTS,
)


def faults(table: Points) -> list[ParameterSet]:
    return [
        pytest.param(Fault(point, count), id=f"{point}:{count}") for point, counts in table.items() for count in counts
    ]


def workload(place: Place, work: str, *, count: int = 4, bug: str = "") -> list[str]:
    command = [preloaded.python(), str(WORKLOAD), work, str(place.folder), f"--count={count}", f"--bug={bug}"]
    return [*command, f"--url={place.url}"]


def run(place: Place, work: str, fault: Fault | None = None, *, count: int = 4, bug: str = "") -> ChildExit:
    """Run a workload to its end, violent or not. An armed kill that did not happen is a failure of the test itself."""
    ended = run_child(workload(place, work, count=count, bug=bug), fault=fault)
    if fault is None:
        assert ended.exit_code == 0, ended.output
    elif fault.action == "kill":
        assert ended.killed, f"{fault.setting} was never reached: exit code {ended.exit_code}\n{ended.output}"
    return ended

"""Which work is killed at which point, how often it has passed there before, and how to run it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest
from _pytest.mark import ParameterSet

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

KILLED_IN: Final[Mapping[str, tuple[str, ...]]] = {
    "ledger/test_counted_entries.py": ("counted.recorded", "counted.row_written"),
    "workspace/test_create.py": ("adopt.renamed",),
    "plans/storage/test_backups.py": (*("backup.copied", "backup.folder_made", "backup.manifest_written"),),
    "plans/test_recovery.py": (
        *("plan.cleared", "plan.cleared_one", "plan.clearing", "plan.folders_made", "plan.folders_removed"),
        *("plan.published", "rollback.clearing"),
        *("road.checkpoint_made", "road.intent_recorded", "road.effect_done", "road.published"),
    ),
    "plans/postgres/test_interrupted.py": (
        *("elsewhere.begun", "elsewhere.committed", "elsewhere.noted", "elsewhere.rows_kept"),
    ),
    "plans/pipelines/test_interrupted.py": ("pipeline.filled", "pipeline.taken", "sql.copied"),
    "plans/sql/test_interrupted.py": ("sql.prepared",),
    "plans/preview/test_kept_outputs.py": (
        *("preview.outputs_copied", "preview.outputs_kept", "preview.outputs_removed", "preview.recorded"),
        *("preview.referred", "preview.released", "preview.rows_pruned", "preview.stored"),
    ),
    "plans/rollback/test_prune.py": ("prune.removed", "prune.renamed"),
    "services/plans/test_killed.py": ("proposal.answered", "proposal.approved", "proposal.inserted", "proposal.made"),
    "services/plans/test_stored_previews.py": ("proposal.preview_stored", "proposal.previewed"),
    "tasks/test_killed_file_tasks.py": (
        *("road.noted", "road.outcome_recorded", "road.settled", "road.taken_over", "road.undone"),
    ),
    "effects/tasks/test_killed.py": (
        *("effect.attributes_set", "effect.folder_synced", "effect.move_synced", "effect.moved", "effect.part_filled"),
        *("effect.part_made", "effect.part_synced", "effect.published", "effect.removal_synced", "effect.removed"),
        "effect.set_aside",
    ),
    "browser/service/test_killed.py": ("browser.answered", "browser.asked", "browser.ended", "browser.released"),
    "governed_functions/test_killed.py": ("call.asked", "call.begun", "call.returned"),
    "crash/goals/test_killed.py": (
        *("goal.decided", "goal.documents_kept", "simulation.dispatched", "simulation.ran"),
    ),
    "crash/steps/test_killed.py": (
        *("goal.ending", "goal.step_begun", "simulation.retried", "simulation.rolled_back"),
    ),
    "goals/composite/test_acceptance_steps.py": ("goal.ended",),
    "web/test_revocations.py": ("people.ended", "people.recorded"),
}
"""Below `tests`: the file that names the point and kills there. A new point gets a row here or in a table above."""

SWEPT_IN: Final[Mapping[str, tuple[str, ...]]] = {
    "crash/tasks/scenarios.py": (
        *("snapshot.content_synced", "snapshot.folder_made", "snapshot.meta_synced", "snapshot.published"),
    ),
    "crash/plans/scenarios.py": (
        *("plan.stage_synced", "plan.staged", "plan.step_undone", "plan.switched", "plan.synced", "plan.undone"),
    ),
}
"""Points of sandboxed processes. A sweep kills at each point that is announced to it, without knowing its name."""

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

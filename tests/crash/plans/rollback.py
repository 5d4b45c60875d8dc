"""A plan that was applied is taken back, by `Workspace.rollback`, and that is stopped.

After recovery the tree is as the plan left it or as it was before, byte for byte; it is what the ledger says; each
intent has its outcome; and asking again ends with everything restored.
"""

import os
from collections.abc import Sequence

from remit.cli import main
from remit.workspace.workspace import Workspace
from tests.crash.plans.plan import Case, PlanScenario, apply, environ, opened, root_of
from tests.crash.tasks.laboratory import ScenarioFolders
from tests.support.crash_injection import Acknowledge


class TakingBack(PlanScenario):
    """Each method runs in a process of its own."""

    def __init__(self, name: str, case: Case) -> None:
        super().__init__(name, case)

    def seed(self, folders: ScenarioFolders) -> None:
        super().seed(folders)
        with opened(folders) as workspace:
            apply(workspace, folders)

    def work(self, folders: ScenarioFolders, acknowledge: Acknowledge) -> None:
        with opened(folders) as workspace:
            acknowledge(workspace.rollback("last").status)

    def recover(self, folders: ScenarioFolders) -> None:
        os.environ.update(environ(folders))
        main(["recover", "--workspace", str(root_of(folders))])

    def look(self, folders: ScenarioFolders, acknowledged: Sequence[str]) -> list[str]:
        return [wrong for status in acknowledged for wrong in self._as_said(folders, status, "acknowledged")]

    def judge(self, folders: ScenarioFolders, acknowledged: Sequence[str]) -> list[str]:
        with opened(folders) as workspace:
            wrong = self.look(folders, acknowledged)
            before = self.differences(folders, "before", "recovered")
            if before and self.differences(folders, "after", "recovered"):
                wrong += ["neither as before nor as after", *before]
            wrong += _miscounted(workspace)
            for _ in range(2):
                status = workspace.rollback("last").status
                wrong += self._as_said(folders, status, "asked again")
                wrong += [] if status == "EXECUTED" else [f"asked again, it ended as {status}"]
            wrong += _miscounted(workspace)
            verdict = workspace.verify_ledger()
            return wrong if verdict.holds else [*wrong, f"the ledger does not verify: {verdict}"]

    def _as_said(self, folders: ScenarioFolders, status: str, said: str) -> list[str]:
        return self.differences(folders, "before" if status == "EXECUTED" else "after", f"{said} {status}")


def _miscounted(workspace: Workspace) -> list[str]:
    with workspace.store.reading() as connection:
        kinds = [row[0] for row in connection.rows("SELECT kind FROM ledger_entries ORDER BY seq")]
    if kinds.count("rollback.intent") == kinds.count("rollback.outcome"):
        return []
    return [f"an intent without its outcome: {kinds}"]

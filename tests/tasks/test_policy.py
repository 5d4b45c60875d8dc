"""Tasks stay away from what Remit keeps of plans, also where an allowed directory and a project overlap."""

from typing import Any

import pytest

from remit.contracts.tasks.task import TaskManifest
from remit.core.errors import Reason
from remit.effects.registry import Registry
from remit.effects.tasks.capabilities import CAPABILITIES
from remit.tasks.policy import decide_task

BASE = "/srv/project"


def reasons(capability: str, base: str = BASE, **inputs: Any) -> list[Reason]:
    task = {"task_id": "t", "capability_id": capability, "inputs": inputs, "constraints": {"reversible": True}}
    decision = decide_task(TaskManifest.from_tree(task), Registry(CAPABILITIES), lambda: (base,))
    return [denial.reason for denial in decision.denials]


@pytest.mark.req("PX-32")
@pytest.mark.parametrize(
    "path", ["agent_outputs/reports/x/backups/0000-a.bak", "agent_logs/executor/x", "sub/Agent_Outputs/x"]
)
def test_no_task_reaches_the_reports_backups_and_logs_of_plans(path: str) -> None:
    there, free = f"{BASE}/{path}", f"{BASE}/free"
    assert reasons("FILE_DELETE", source_path=there) == [Reason.PATH_REFUSED]
    assert reasons("FILE_MOVE", source_path=there, destination_path=free) == [Reason.PATH_REFUSED]
    assert reasons("FILE_COPY", source_path=free, destination_path=there) == [Reason.PATH_REFUSED]


def test_nor_does_one_whose_allowed_directory_lies_in_them() -> None:
    base = f"{BASE}/agent_outputs/reports"
    assert reasons("FILE_DELETE", base, source_path=f"{base}/x") == [Reason.PATH_REFUSED]


def test_other_files_of_the_same_folder_are_plain() -> None:
    assert reasons("FILE_DELETE", source_path=f"{BASE}/agent_outputs.txt") == []


@pytest.mark.req("FX-04")
@pytest.mark.parametrize("name", ["remit.yaml", "Remit.YAML", "remit\u200b.yaml", "remit.yaml."])
def test_no_task_touches_the_file_of_settings_in_any_spelling(name: str) -> None:
    assert reasons("FILE_DELETE", source_path=f"{BASE}/{name}") == [Reason.PATH_REFUSED]

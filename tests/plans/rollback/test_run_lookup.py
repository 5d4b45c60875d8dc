"""A run is found by the names that the ledger has for it; files of the project lead nowhere."""

import json
import shutil
from pathlib import Path

import pytest

from remit.contracts.plans.outcome import PlanOutcome
from remit.core.errors import Reason, RefusedError
from tests.plans.project import Project, plan_of, replace

pytestmark = [pytest.mark.req("PX-15", "PX-23")]


def two_runs(project: Project) -> tuple[PlanOutcome, PlanOutcome]:
    project.write("a.txt")
    project.write("b.txt")
    first = project.apply(plan_of(replace("a", "a.txt"), plan_id="first"))
    return first, project.apply(plan_of(replace("b", "b.txt"), plan_id="second"))


@pytest.mark.parametrize("how", ["envelope", "report", "folder", "slash", "path", "absolute"])
def test_each_name_leads_to_its_run(project: Project, how: str) -> None:
    status = two_runs(project)[0].status
    name = status.folder.rpartition("/")[2]
    rolled = project.workspace.rollback(
        {
            "envelope": status.envelope_id,
            "report": status.report_id,
            "folder": name,
            "slash": name + "/",
            "path": f"./{status.folder}/",
            "absolute": str(project.root / status.folder),
        }[how]
    )
    assert (rolled.status, rolled.envelope_id) == ("EXECUTED", status.envelope_id)
    assert project.read("b.txt") == "one\nTWO\nthree\n"


def test_a_path_from_where_one_stands_will_do(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    status = two_runs(project)[0].status
    monkeypatch.chdir(project.report_folder(third_run(project)))
    rolled = project.workspace.rollback("../" + status.folder.rpartition("/")[2])
    assert rolled.envelope_id == status.envelope_id


def third_run(project: Project) -> PlanOutcome:
    project.write("c.txt")
    return project.apply(plan_of(replace("c", "c.txt"), plan_id="third"))


def test_an_edited_status_does_not_lead_to_another_run(project: Project) -> None:
    first, second = two_runs(project)
    paper = project.report_folder(first) / "status.json"
    said = json.loads(paper.read_bytes())
    said |= {"envelope_id": second.status.envelope_id, "report_id": second.status.report_id}
    paper.write_text(json.dumps(said))
    rolled = project.workspace.rollback(first.status.folder)
    assert rolled.envelope_id == first.status.envelope_id
    assert project.read("b.txt") == "one\nTWO\nthree\n"


@pytest.mark.parametrize("how", ["name", "report id", "path"])
def test_a_planted_folder_is_no_run(project: Project, how: str) -> None:
    _, second = two_runs(project)
    planted = project.root / "agent_outputs/reports/29990101T000000.000000Z_planted"
    planted.mkdir()
    said = {"envelope_id": second.status.envelope_id, "report_id": "11111111-1111-4111-8111-111111111111"}
    (planted / "status.json").write_text(json.dumps(said))
    before = project.tree()
    name = {"name": planted.name, "report id": said["report_id"], "path": str(planted)}[how]
    with pytest.raises(RefusedError, match="no run of a plan has this name") as caught:
        project.workspace.rollback(name)
    assert caught.value.reason is Reason.STATE_MISSING
    assert project.tree() == before


def test_a_folder_of_the_same_name_in_another_place_is_not_the_run(project: Project, tmp_path: Path) -> None:
    status = two_runs(project)[0].status
    copy = tmp_path / "copy" / status.folder
    shutil.copytree(project.root / status.folder, copy)
    with pytest.raises(RefusedError, match="no run of a plan has this name"):
        project.workspace.rollback(str(copy))


@pytest.mark.parametrize("content", [b"[" * 200_000, b"\xff", b"[]", b'"x"', b""])
def test_planted_content_of_a_status_stops_nothing(project: Project, content: bytes) -> None:
    first, second = two_runs(project)
    for outcome in (first, second):
        (project.report_folder(outcome) / "status.json").write_bytes(content)
    assert project.workspace.rollback(first.status.report_id).envelope_id == first.status.envelope_id


@pytest.mark.parametrize("name", ["", "/", "%", "_", "first", "a\0b", "x" * 100_000, "\u00e9", "reports", "\\"])
def test_a_text_that_names_no_run_is_refused(project: Project, name: str) -> None:
    two_runs(project)
    with pytest.raises(RefusedError):
        project.workspace.rollback(name)

"""`remit catalogue`, in a process of its own."""

import json
from pathlib import Path

import pytest

from remit.goals.catalogue.catalogue import build_catalogue
from tests.cli.conftest import Remit
from tests.goals.catalogue.simulations import COMPOSITE, LOOKUP, MOVE, UNDO, changed, simulation

CONFIG = """version: 1
connections:
  replica: {type: duckdb, path: shop.duckdb, read_only: true}
tenants:
  acme: {users: [mia]}
goals:
  catalogue: [simulations.json]
policies:
  cedar_files: [access.cedar]
"""
POLICY = '@id("looks") permit(principal, action in [Action::"look_up", Action::"file_report"], resource);'


def write(project: Path, *trees: object) -> None:
    (project / "simulations.json").write_text(json.dumps({"version": 1, "simulations": trees}))


@pytest.fixture
def project(remit: Remit, tmp_path: Path) -> Path:
    assert remit("init").code == 0
    project = tmp_path / "project"
    (project / "remit.yaml").write_text(CONFIG)
    (project / "access.cedar").write_text(POLICY)
    write(project, MOVE, UNDO, LOOKUP)
    return project


@pytest.mark.req("AC-18")
def test_a_person_checks_promotes_and_retires_and_an_agent_cannot(remit: Remit, project: Path) -> None:
    checked = remit("catalogue", "check")
    assert (checked.code, checked.out) == (0, "3 simulations in 1 file: no findings\n")
    by_agent = remit("catalogue", "promote", "file-report", REMIT_AGENT="bot")
    assert (by_agent.code, "an agent cannot" in by_agent.err) == (2, True)

    shown = remit("catalogue", "show", "file-report", "--json").document
    assert (shown["state"], shown["digest"], shown["last_change"]) == ("DRAFT", simulation(MOVE).own_digest, None)
    promoted = remit("catalogue", "promote", "file-report", "--digest", shown["digest"], "--reason", "read it")
    assert (promoted.code, "is ACTIVE for acme" in promoted.out) == (0, True), promoted.err
    assert "its rollback undo-file-report is DRAFT, so it cannot be rolled back yet" in promoted.err

    listed = remit("catalogue", "list", "--json").document
    assert [each["state"] for each in listed["simulations"]] == ["ACTIVE", "DRAFT", "DRAFT"]
    assert "file-report" in remit("catalogue", "list").out

    write(project, changed(MOVE, rollback="nobody"), UNDO)
    found = remit("catalogue", "check", "--json")
    assert found.code == 1
    rollback, policy = found.document["findings"]
    assert rollback["where"] == "simulations.json, simulation file-report, rollback"
    assert (policy["where"], "the policy looks names the action 'look_up'" in policy["what"]) == (
        "access.cedar, line 1",
        True,
    )
    assert "file-report (file_report), undo-file-report (file_report)" in policy["next_step"]
    assert remit("catalogue", "list").code == 2
    retired = remit("catalogue", "retire", "file-report", "--json")
    assert (retired.code, retired.document["state"]) == (0, "RETIRED")
    assert remit("catalogue", "retire", "file-report", REMIT_TOKEN="x").code == 2


def test_without_a_tenant_or_a_file_it_says_what_to_write(remit: Remit, project: Path) -> None:
    (project / "remit.yaml").write_text("version: 1\n")
    nobody = remit("catalogue", "list")
    assert (nobody.code, "tenants:" in nobody.err) == (2, True)
    (project / "remit.yaml").write_text("version: 1\ntenants: {a: {users: [x]}, b: {users: [y]}}\n")
    assert "one of: a, b" in remit("catalogue", "list").err
    empty = remit("catalogue", "list", "--tenant", "a")
    assert (empty.code, "goals:" in empty.out) == (0, True)
    unknown = remit("catalogue", "show", "x", "--tenant", "a", "--json")
    assert (unknown.code, unknown.document["error"]["reason"]) == (2, "simulation_unknown")
    assert unknown.document["error"]["next_step"] == "See: remit catalogue list --tenant a"


@pytest.mark.req("AC-18", "AC-29")
def test_a_person_sees_the_steps_of_a_composite_and_promotes_the_whole(remit: Remit, project: Path) -> None:
    write(project, *COMPOSITE)
    entry = build_catalogue("acme", [simulation(tree) for tree in COMPOSITE], {}).find("file-and-note")
    assert entry is not None
    shown = remit("catalogue", "show", "file-and-note").out
    assert f"digest: {entry.digest}\n" in shown
    assert f"step 2, file: file-report, DRAFT ({simulation(MOVE).own_digest})\n" in shown
    assert f"  rolled back by undo-file-report, DRAFT ({simulation(UNDO).own_digest})\n" in shown
    command = ("catalogue", "promote", "file-and-note", "--digest", entry.digest, "--json")

    write(project, *(changed(tree, title="New") if tree is UNDO else tree for tree in COMPOSITE))
    assert remit(*command).document["error"]["reason"] == "binding_mismatch"
    write(project, *COMPOSITE)
    promoted = remit(*command)
    assert (promoted.code, promoted.document["digest"]) == (0, entry.digest)
    assert [each["step"] for each in promoted.document["steps"]] == ["look", "file", "note"]
    assert "note: its steps need file-report, which is DRAFT, so it cannot run yet" in promoted.err
    listed = remit("catalogue", "list")
    assert "  file: file-report" in listed.out

    write(project, *(changed(tree, title="New") if tree is UNDO else tree for tree in COMPOSITE))
    assert "file-and-note was changed since it was promoted" in remit("catalogue", "list").err

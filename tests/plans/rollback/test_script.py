"""The stand-alone script restores what a plan changed with nothing but a Python interpreter, and never silently."""

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from remit.contracts.plans.rollback import RollbackManifest
from remit.contracts.schemas import load_schema
from remit.plans.storage.manifest import read_script
from tests.plans.storage.project import Action, Done, Project
from tests.support.default_acl import DEFAULT_ACL, give_default_acl
from tests.support.small_disks import only_root

ACTIONS: list[Action] = [
    ("modify", "a.txt", b"a after"),
    ("delete", "deep/b", None),
    ("create", "new/deep/c", b"c"),
    ("rename", "d", "new/d"),
    ("modify", "sub/\u00e9 \n.txt", b"after"),
]
OLDEST = shutil.which("python3.8")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    place = Project(tmp_path / "project")
    place.write("a.txt", b"a before", 0o750)
    place.write("deep/b", b"b before" * 100_000, 0o444)
    place.write("d", b"d before", 0o600)
    place.write("sub/\u00e9 \n.txt", b"\x00\xff binary")
    place.write("untouched", b"u")
    os.utime(place.root / "a.txt", ns=(5, 1_500_000_000_123_456_789))
    return place


def run(
    project: Project, done: Done, *arguments: str, python: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    """Isolated, with no environment at all."""
    script = str(project.report(done) / "rollback.py")
    command = [python, "-I", script, *arguments]
    return subprocess.run(command, env={}, cwd="/", capture_output=True, text=True, check=False, timeout=60)


def build_run_manifest(project: Project, done: Done) -> RollbackManifest:
    raw = (project.report(done) / "rollback_manifest.json").read_bytes()
    jsonschema_rs.validator_for(load_schema("rollback-manifest")).validate(json.loads(raw))
    return RollbackManifest.parse(raw)


@pytest.mark.req("PX-17", "PX-36")
def test_everything_is_as_before_and_a_second_run_finds_nothing_left(project: Project) -> None:
    before = project.tree()
    done = project.run_plan(ACTIONS)
    assert project.tree() != before
    ended = run(project, done)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert project.tree() == before
    assert (project.root / "a.txt").stat().st_mtime_ns == 1_500_000_000_123_456_789
    manifest = build_run_manifest(project, done)
    assert (manifest.status, manifest.executed_at is not None) == ("EXECUTED", True)
    assert {c.restored_by for c in manifest.checkpoints} == {"rollback.py"}
    again = run(project, done)
    assert (again.returncode, again.stdout) == (0, "nothing left to do\n")
    assert project.tree() == before


@pytest.mark.req("PX-17")
@pytest.mark.skipif(OLDEST is None, reason="Python 3.8 is not installed")
def test_it_runs_on_python_3_8(project: Project) -> None:
    assert OLDEST is not None
    if subprocess.run([OLDEST, "-c", ""], check=False, capture_output=True).returncode:
        pytest.skip("Python 3.8 is not installed")
    before = project.tree()
    done = project.run_plan(ACTIONS)
    interpreter = subprocess.run(
        [OLDEST, "-c", "import sys; print(sys.executable)"], check=True, capture_output=True, text=True
    )
    ended = run(project, done, python=interpreter.stdout.strip())
    assert (ended.returncode, ended.stderr) == (0, "")
    assert project.tree() == before


@pytest.mark.req("PX-17")
def test_it_has_no_syntax_that_python_3_8_does_not_know() -> None:
    ast.parse(read_script(), feature_version=(3, 8))


@pytest.mark.req("PX-17")
def test_it_needs_nothing_but_the_standard_library(project: Project) -> None:
    done = project.run_plan(ACTIONS)
    script = project.report(done) / "rollback.py"
    program = f"""
import runpy, sys
sys.argv = ["rollback.py", "--dry-run"]
try: runpy.run_path({str(script)!r}, run_name="__main__")
except SystemExit: pass
tops = {{name.partition(".")[0] for name in sys.modules if not name.startswith("_")}}
print(sorted(tops - sys.stdlib_module_names - {{"sitecustomize", "usercustomize"}}))
"""
    ended = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == "[]"


@pytest.mark.req("PX-36")
@pytest.mark.parametrize("how", ["changed", "gone", "link"])
def test_a_damaged_backup_stops_it_before_the_first_restore(project: Project, how: str) -> None:
    done = project.run_plan(ACTIONS)
    # The last one to be restored: all others would have been before it.
    [backup] = [path for path in (project.report(done) / "backups").iterdir() if path.name.endswith("-a.txt.bak")]
    if how == "changed":
        backup.chmod(0o600)
        backup.write_bytes(b"A before")
    else:
        backup.rename(backup.with_name("moved"))
    if how == "link":
        backup.symlink_to("moved")
    after = project.tree()
    ended = run(project, done)
    assert ended.returncode == 2
    assert "a.txt.bak" in ended.stdout
    assert project.tree() == after
    assert build_run_manifest(project, done) == done.manifest


@pytest.mark.req("PX-16")
@pytest.mark.parametrize("path", ["a.txt", "new/deep/c", "new/d", "deep/b"])
def test_a_changed_file_is_left_alone_unless_forced(project: Project, path: str) -> None:
    before = project.tree()
    done = project.run_plan(ACTIONS)
    project.write(path, b"somebody's")
    after = project.tree()
    ended = run(project, done)
    assert ended.returncode == 2
    assert ("d" if path == "new/d" else path) in ended.stdout
    assert project.tree() == after
    forced = run(project, done, "--force")
    assert forced.returncode == 0, forced.stdout
    assert project.tree() == before
    kept = list((project.report(done) / "backups").glob("*.drifted-*.bak"))
    assert [place.read_bytes() for place in kept] == [b"somebody's"], "and nothing is lost"


@pytest.mark.req("PX-15", "PX-17")
def test_chosen_checkpoints_only_and_then_the_rest(project: Project) -> None:
    before = project.tree()
    done = project.run_plan(ACTIONS)
    assert run(project, done, "--checkpoint", done.checkpoint("a.txt")).returncode == 0
    assert (project.root / "a.txt").read_bytes() == b"a before"
    assert not (project.root / "deep/b").exists()
    assert build_run_manifest(project, done).status == "ACTIVE"
    assert run(project, done).returncode == 0
    assert project.tree() == before
    assert build_run_manifest(project, done).status == "EXECUTED"
    assert run(project, done, "--checkpoint", "no-such-id").returncode == 2


def test_a_dry_run_changes_nothing(project: Project) -> None:
    done = project.run_plan(ACTIONS)
    after = project.tree()
    ended = run(project, done, "--dry-run")
    assert ended.returncode == 0
    assert "Remove new/deep/c" in ended.stdout
    assert project.tree() == after
    assert build_run_manifest(project, done) == done.manifest


def test_a_folder_with_a_foreign_file_stays(project: Project) -> None:
    done = project.run_plan(ACTIONS)
    project.write("new/theirs", b"theirs")
    ended = run(project, done)
    assert ended.returncode == 0
    assert "kept" in ended.stdout
    assert (project.root / "new/theirs").read_bytes() == b"theirs"
    assert not (project.root / "new/deep").exists()
    assert build_run_manifest(project, done).status == "ACTIVE"


def test_what_is_back_already_is_marked_so(project: Project) -> None:
    before = project.tree()
    done = project.run_plan([("modify", "a.txt", b"a after")])
    project.write("a.txt", b"a before", 0o750)
    shutil.rmtree(project.report(done) / "backups")
    assert "nothing left to do" in run(project, done).stdout
    assert project.tree() == before
    assert build_run_manifest(project, done).status == "EXECUTED"


@pytest.mark.req("PX-15")
def test_an_expired_manifest_is_refused_unless_forced(project: Project) -> None:
    done = project.run_plan([("modify", "a.txt", b"a after")], expires="2026-01-01T00:00:00Z")
    ended = run(project, done)
    assert ended.returncode == 2
    assert "expired" in ended.stdout
    assert (project.root / "a.txt").read_bytes() == b"a after"
    assert run(project, done, "--force").returncode == 0
    assert (project.root / "a.txt").read_bytes() == b"a before"


@pytest.mark.req("PX-23")
@pytest.mark.parametrize("path", ["../outside/x", "/etc/passwd", "a/../../x", "link/x", ""])
def test_a_forged_manifest_leads_nowhere_outside(project: Project, tmp_path: Path, path: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_bytes(b"precious")
    (project.root / "link").symlink_to(outside)
    done = project.run_plan([("create", "n", b"n"), ("modify", "a.txt", b"a after")])
    file = project.report(done) / "rollback_manifest.json"
    forged = json.loads(file.read_bytes())
    for checkpoint in forged["checkpoints"]:
        if checkpoint["file_path"] == "n":
            checkpoint["file_path"] = path
    file.write_text(json.dumps(forged))
    assert run(project, done, "--force").returncode == 2
    assert (outside / "x").read_bytes() == b"precious"
    assert (project.root / "a.txt").read_bytes() == b"a after"


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"checkpoints": 1}', b"\xff", b"[" * 200_000])
def test_what_is_no_manifest_is_refused(project: Project, content: bytes) -> None:
    done = project.run_plan(ACTIONS)
    (project.report(done) / "rollback_manifest.json").write_bytes(content)
    after = project.tree()
    ended = run(project, done)
    assert (ended.returncode, ended.stderr) == (2, "")
    assert project.tree() == after


@pytest.mark.parametrize(
    "forged",
    [
        {"original_mtime_ns": "9" * 40},
        {"original_mtime_ns": "-" + "9" * 40},
        {"original_mtime_ns": "9" * 5000},
        {"original_owner": f"{1 << 64}:0"},
        {"original_owner": "0:-5"},
        {"original_owner": "0"},
        {"original_attributes": {"user.x": "no base64"}},
        {"original_attributes": {"user.x": 1}},
        {"original_attributes": ["user.x"]},
        {"original_mode": "9"},
    ],
    ids="".join,
)
def test_a_manifest_with_impossible_values_is_refused_before_anything_is_touched(
    project: Project, forged: dict[str, Any]
) -> None:
    done = project.run_plan(ACTIONS)
    file = project.report(done) / "rollback_manifest.json"
    manifest = json.loads(file.read_bytes())
    for checkpoint in manifest["checkpoints"]:
        if checkpoint["file_path"] == "a.txt":  # restored last
            checkpoint.update(forged)
    file.write_text(json.dumps(manifest))
    after = project.tree()
    ended = run(project, done)
    assert (ended.returncode, ended.stderr) == (2, "")
    assert project.tree() == after


@pytest.mark.req("PX-15", "PX-16")
@pytest.mark.parametrize("folder", [".", "deep"])
def test_a_folder_that_gives_rights_of_its_own_gets_no_file(project: Project, folder: str) -> None:
    before = project.tree()
    done = project.run_plan(ACTIONS)
    give_default_acl(project.root / folder)
    after = project.tree()
    for option in ("--dry-run", "--force"):
        ended = run(project, done, option)
        assert (ended.returncode, ended.stderr) == (2, "")
        assert "default ACL" in ended.stdout
        assert project.tree() == after
    os.removexattr(project.root / folder, DEFAULT_ACL)
    assert run(project, done).returncode == 0
    assert project.tree() == before


def test_no_folder_is_made_in_a_folder_that_gives_rights_of_its_own(project: Project) -> None:
    done = project.run_plan([("delete", "deep/b", None)])
    (project.root / "deep").rmdir()
    give_default_acl(project.root)
    assert run(project, done).returncode == 2
    assert not (project.root / "deep").exists()


def test_what_only_gets_its_name_back_or_is_removed_needs_no_rights(project: Project) -> None:
    before = project.tree()
    done = project.run_plan([("rename", "d", "e"), ("create", "new", b"n")])
    give_default_acl(project.root)
    ended = run(project, done)
    assert ended.returncode == 0, ended.stdout
    assert project.tree() == before


@pytest.mark.req("PX-17")
def test_it_works_from_a_copy_of_the_project_in_another_folder(project: Project, tmp_path: Path) -> None:
    before = project.tree()
    done = project.run_plan(ACTIONS)
    elsewhere = Project(tmp_path / "elsewhere")
    shutil.copytree(project.root, elsewhere.root, dirs_exist_ok=True)
    assert run(elsewhere, done).returncode == 0
    assert elsewhere.tree() == before
    assert project.tree() != before
    assert run(elsewhere, done, "--root", project.base).returncode == 0, "it is done there, by its own manifest"
    assert run(project, done, "--root", project.base).returncode == 0
    assert project.tree() == before


@only_root
@pytest.mark.req("PX-15")
def test_owner_and_attributes_are_restored_where_it_may(project: Project) -> None:
    place = project.root / "a.txt"
    os.setxattr(place, "user.comment", b"kept")
    os.chown(place, 12345, 54321)
    done = project.run_plan([("delete", "a.txt", None)])
    assert run(project, done).returncode == 0
    assert (place.stat().st_uid, place.stat().st_gid, place.stat().st_mode & 0o777) == (12345, 54321, 0o750)
    assert os.getxattr(place, "user.comment") == b"kept"


def test_names_are_shown_without_control_characters(project: Project) -> None:
    done = project.run_plan(ACTIONS)
    ended = run(project, done)
    assert "sub/\\xe9 \\n.txt" in ended.stdout
    assert ended.stdout.isascii()


def test_the_script_continues_after_an_interruption(project: Project) -> None:
    """Killed between two restores: the manifest does not know yet, the files do."""
    before = project.tree()
    done = project.run_plan(ACTIONS)
    project.write("a.txt", b"a before", 0o750)
    project.write("deep/b", b"b before" * 100_000, 0o444)
    assert run(project, done).returncode == 0
    assert project.tree() == before

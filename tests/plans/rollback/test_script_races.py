"""The stand-alone script and somebody who edits at the same moment: nobody's work is lost, and it is said."""

import errno
import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.plans.storage.project import Action, Done, Project

pytestmark = [pytest.mark.req("PX-16", "PX-17")]
THEIRS = b"typed at the last moment"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    place = Project(tmp_path / "project")
    place.write("f", b"before")
    return place


def load(project: Project, done: Done) -> ModuleType:
    """The very script of the report folder."""
    spec = importlib.util.spec_from_file_location("rollback_script", project.report(done) / "rollback.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SYSTEMS = ["renameat2", "links", "neither"]


def weaken(script: ModuleType, system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a system, or a disk, that can do less."""

    def no_link(*_arguments: Any, **_more: Any) -> None:
        raise OSError(errno.EPERM, "no hard links here")

    if system != "renameat2":
        monkeypatch.setattr(script, "rename_as", lambda *_: False)
    if system == "neither":
        monkeypatch.setattr(os, "link", no_link)


def edit_meanwhile(script: ModuleType, edit: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """After all was judged, and just before the first file is touched."""
    make = script.new_name
    pending = [edit]

    def new_name() -> bytes:
        if pending:
            pending.pop()()
        name: bytes = make()
        return name

    monkeypatch.setattr(script, "new_name", new_name)


def write_over(place: Path) -> None:
    place.write_bytes(THEIRS)


def put_another(place: Path) -> None:
    """As most editors save."""
    draft = place.with_name("draft")
    draft.write_bytes(THEIRS)
    draft.replace(place)


CASES: list[tuple[Action, str]] = [
    (("modify", "f", b"after"), "f"),
    (("create", "g", b"new"), "g"),
    (("delete", "f", None), "f"),
]


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("edit", [write_over, put_another])
@pytest.mark.parametrize("action, path", CASES, ids=["modify", "create", "delete"])
def test_what_was_changed_since_it_was_judged_is_kept(
    project: Project,
    action: Action,
    path: str,
    edit: Callable[[Path], None],
    system: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    done = project.run_plan([action])
    script = load(project, done)
    weaken(script, system, monkeypatch)
    edit_meanwhile(script, lambda: edit(project.root / path), monkeypatch)
    assert script.main([]) == 1
    said = capsys.readouterr().out
    assert f"kept      {path}: it was changed just now" in said
    assert said.endswith("0 restored, 1 kept\n")
    assert (project.root / path).read_bytes() == THEIRS
    assert not list(project.root.glob(".remit-*")), "and nothing of ours is left beside it"
    assert load(project, done).main([]) == 2, "from now on it is drift like any other"


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("path", ["f", "g"])
def test_a_late_edit_at_either_end_of_a_rename_is_kept(
    project: Project, path: str, system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = project.run_plan([("rename", "f", "g")])
    script = load(project, done)
    weaken(script, system, monkeypatch)
    undo_rename = script.undo_rename

    def late(root: int, checkpoint: dict[str, Any], judged: Any) -> None:
        (project.root / path).write_bytes(THEIRS)
        undo_rename(root, checkpoint, judged)

    monkeypatch.setattr(script, "undo_rename", late)
    assert script.main([]) == 1
    assert (project.root / path).read_bytes() == THEIRS
    assert (project.root / "g").exists()


@pytest.mark.parametrize("system", SYSTEMS[:2])  # without links there is no second name to look at
def test_what_is_written_into_the_old_file_until_the_last_moment_is_kept(
    project: Project, system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = project.run_plan([("modify", "f", b"after")])
    script = load(project, done)
    weaken(script, system, monkeypatch)
    look, looks = script.is_as_judged, []

    def late(folder: int, name: bytes, judged: Any) -> bool:
        looks.append(name)
        if len(looks) == (1 if system == "renameat2" else 2):  # when the new file has the name already
            descriptor = os.open(name, os.O_WRONLY | os.O_TRUNC, dir_fd=folder)
            os.write(descriptor, THEIRS)
            os.close(descriptor)
        return bool(look(folder, name, judged))

    monkeypatch.setattr(script, "is_as_judged", late)
    assert script.main([]) == 1
    assert (project.root / "f").read_bytes() == THEIRS


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_forced_run_too_replaces_only_content_that_it_has_backed_up(
    project: Project, system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = project.run_plan([("modify", "f", b"after")])
    project.write("f", b"drifted")
    script = load(project, done)
    weaken(script, system, monkeypatch)
    edit_meanwhile(script, lambda: put_another(project.root / "f"), monkeypatch)
    assert script.main(["--force"]) == 1
    assert (project.root / "f").read_bytes() == THEIRS
    [kept] = (project.report(done) / "backups").glob("*.drifted-*")
    assert kept.read_bytes() == b"drifted"


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_system_that_can_do_less_still_restores_everything(
    project: Project, system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("d", b"deleted")
    project.write("r", b"renamed", 0o600)
    before = project.tree()
    actions: list[Action] = [
        ("modify", "f", b"after"),
        ("delete", "d", None),
        ("rename", "r", "s/r"),
        ("create", "c", b"c"),
    ]
    done = project.run_plan(actions)
    script = load(project, done)
    weaken(script, system, monkeypatch)
    assert script.main([]) == 0
    assert project.tree() == before


def test_a_vanished_file_is_no_failure(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = project.run_plan([("modify", "f", b"after")])
    script = load(project, done)
    edit_meanwhile(script, (project.root / "f").unlink, monkeypatch)
    assert script.main([]) == 1
    assert "kept      f" in capsys.readouterr().out
    assert not (project.root / "f").exists()


def test_it_counts_only_what_it_touched(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    done = project.run_plan([("modify", "f", b"after"), ("create", "g", b"new")])
    project.write("f", b"before")
    assert load(project, done).main([]) == 0
    assert capsys.readouterr().out.splitlines() == ["removed   g", "as before f", "0 restored, 1 removed, 0 kept"]


@pytest.mark.parametrize("action", [("modify", "f", b"after"), ("create", "g", b"new"), ("rename", "f", "g")])
def test_changed_permissions_are_drift(project: Project, action: Action) -> None:
    before = project.tree()
    done = project.run_plan([action])
    place = project.root / ("f" if action[0] == "modify" else "g")
    place.chmod(0o600)
    assert load(project, done).main([]) == 2
    assert place.stat().st_mode & 0o777 == 0o600
    assert load(project, done).main(["--force"]) == 0
    assert project.tree() == before

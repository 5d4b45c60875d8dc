"""Where the state directory may lie: never where an agent that was granted the workspace could reach it."""

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.fs.state_dir import locate_state, require_private, workspace_id


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def refused(root: Path, environ: dict[str, str]) -> Reason | None:
    try:
        locate_state(root, environ)
    except RefusedError as problem:
        return problem.reason if problem.next_step else None
    return None


def test_remit_state_says_where(root: Path, tmp_path: Path) -> None:
    state = locate_state(root, {"REMIT_STATE": str(tmp_path / "state"), "XDG_STATE_HOME": "/elsewhere", "HOME": "/h"})
    assert state.path == tmp_path / "state" / workspace_id(root)
    inside = {state.keys, state.database, state.anchors, state.settings}
    assert len(inside) == 4
    assert all(path.parent == state.path for path in inside)


def test_without_it_the_xdg_folder_is_used(root: Path, tmp_path: Path) -> None:
    state = locate_state(root, {"XDG_STATE_HOME": str(tmp_path / "xdg"), "HOME": "/h"})
    assert state.path == tmp_path / "xdg" / "remit" / workspace_id(root)


@pytest.mark.parametrize("xdg", ["", "relative", "./relative", "../up"])
def test_a_relative_xdg_folder_is_ignored(root: Path, tmp_path: Path, xdg: str) -> None:
    state = locate_state(root, {"XDG_STATE_HOME": xdg, "HOME": str(tmp_path / "home")})
    assert state.path == tmp_path / "home" / ".local" / "state" / "remit" / workspace_id(root)


@pytest.mark.parametrize("environ", [{}, {"HOME": ""}, {"HOME": "relative"}])
def test_without_a_usable_home_the_account_says_where(root: Path, environ: dict[str, str]) -> None:
    home = Path(pwd.getpwuid(os.getuid()).pw_dir).resolve()
    assert locate_state(root, environ).path.is_relative_to(home)


@pytest.mark.parametrize("relative", ["state", "./state", "../state", "~/state"])
def test_a_relative_remit_state_is_refused(root: Path, relative: str) -> None:
    with pytest.raises(RefusedError, match="not an absolute path") as problem:
        locate_state(root, {"REMIT_STATE": relative})
    assert problem.value.where == relative


def test_a_state_beneath_the_workspace_is_refused(root: Path) -> None:
    for inside in (root, root / "state", root / "a" / "b", root / "a" / ".." / "state"):
        assert refused(root, {"REMIT_STATE": str(inside)}) is Reason.STATE_UNSAFE
    assert refused(root, {"XDG_STATE_HOME": str(root)}) is Reason.STATE_UNSAFE
    assert refused(root, {"HOME": str(root)}) is Reason.STATE_UNSAFE


def test_a_workspace_beneath_the_state_is_refused(root: Path) -> None:
    for above in (root.parent, root.parent.parent, Path("/")):
        assert refused(root, {"REMIT_STATE": str(above)}) is Reason.STATE_UNSAFE


def test_the_root_of_the_filesystem_is_no_workspace(tmp_path: Path) -> None:
    assert refused(Path("/"), {"REMIT_STATE": str(tmp_path)}) is Reason.STATE_UNSAFE


def test_a_sibling_whose_name_begins_alike_is_fine(root: Path) -> None:
    beside = root.with_name("project-state")
    assert locate_state(root, {"REMIT_STATE": str(beside)}).path.parent == beside


def test_a_link_into_the_workspace_is_seen_through(root: Path, tmp_path: Path) -> None:
    (root / "inside").mkdir()
    (tmp_path / "link").symlink_to(root / "inside")
    assert refused(root, {"REMIT_STATE": str(tmp_path / "link")}) is Reason.STATE_UNSAFE
    assert refused(root, {"REMIT_STATE": str(tmp_path / "link" / "deeper")}) is Reason.STATE_UNSAFE


def test_a_workspaces_own_folder_that_is_a_link_into_it_is_seen_through(root: Path, tmp_path: Path) -> None:
    home = tmp_path / "state"
    home.mkdir()
    (home / workspace_id(root)).symlink_to(root)
    assert refused(root, {"REMIT_STATE": str(home)}) is Reason.STATE_UNSAFE
    (home / workspace_id(root)).unlink()
    (home / workspace_id(root)).symlink_to(tmp_path)
    assert refused(root, {"REMIT_STATE": str(home)}) is Reason.STATE_UNSAFE


def test_a_linked_workspace_has_the_state_of_the_real_one(root: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(root)
    environ = {"REMIT_STATE": str(tmp_path / "state")}
    assert locate_state(tmp_path / "alias", environ) == locate_state(root, environ)
    assert refused(tmp_path / "alias", {"REMIT_STATE": str(root / "state")}) is Reason.STATE_UNSAFE


def test_links_in_a_circle_are_refused(root: Path, tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    assert refused(root, {"REMIT_STATE": str(tmp_path / "circle")}) is Reason.STATE_UNSAFE
    assert refused(tmp_path / "circle", {"REMIT_STATE": str(tmp_path / "state")}) is Reason.STATE_UNSAFE


def test_nothing_in_the_workspace_can_move_the_state(root: Path, tmp_path: Path) -> None:
    environ = {"REMIT_STATE": str(tmp_path / "state")}
    before = locate_state(root, environ)
    for name in ("remit.yaml", ".env", "workspace.json", ".remit"):
        (root / name).write_text("state: /elsewhere\nREMIT_STATE=/elsewhere\n")
    assert locate_state(root, environ) == before


@given(st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=60))
def test_a_workspace_id_is_one_plain_file_name(name: str) -> None:
    made = workspace_id(Path("/somewhere") / name)
    assert len(made) <= 50
    assert set(made) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert not made.startswith("-")
    assert made != workspace_id(Path("/elsewhere") / name)


def test_a_private_folder_is_accepted_and_an_open_one_is_not(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o700)
    require_private(folder, what="the folder")
    for mode in (0o701, 0o710, 0o770, 0o704):
        folder.chmod(mode)
        with pytest.raises(EnvironmentFailureError, match=f"the folder is open to others .mode {mode:04o}"):
            require_private(folder, what="the folder")


def test_a_missing_folder_is_distinguished_from_a_path_below_a_file(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailureError, match="the folder is missing") as missing:
        require_private(tmp_path / "nowhere", what="the folder")
    assert missing.value.reason is Reason.STATE_MISSING
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentFailureError, match="cannot be read: Not a directory") as wrong:
        require_private(tmp_path / "file" / "below", what="the folder")
    assert wrong.value.reason is Reason.STATE_UNSAFE


def test_a_state_directory_below_a_closed_folder_of_another_user_is_refused_and_the_owner_named(
    root: Path, tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can look with somebody else's eyes")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_mode & 0o001 == 0:  # else another folder, further up, would be the one that is named
            closed = folder
    program = (
        "import os, pathlib, sys; from remit.core.errors import RefusedError\n"
        "from remit.fs.state_dir import locate_state\n"
        "os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)\n"
        "try: locate_state(pathlib.Path('/nowhere'), {'REMIT_STATE': sys.argv[1]})\n"
        "except RefusedError as problem: print(problem.what, problem.where, problem.next_step, sep='\\n')"
    )
    state = str(tmp_path / "closed" / "state")
    done = subprocess.run([sys.executable, "-c", program, state], capture_output=True, text=True, check=True)
    what, where, next_step = done.stdout.splitlines()
    assert what == (
        "a folder above the state directory belongs to user 0, not to user 65534, and this user cannot read it"
    )
    assert where == str(closed)
    assert "REMIT_STATE" in next_step

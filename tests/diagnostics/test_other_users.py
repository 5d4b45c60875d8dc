"""The same machine and workspace, seen by root and by an ordinary user."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from remit.core.ids import system_clock
from remit.diagnostics import machine
from remit.diagnostics.checkup import check_machine
from remit.sandbox.kernel_probes import probe_kernel
from tests.diagnostics.sound_workspace import ROOT, SoundWorkspace, checks_by_name, make_sound_workspace


def _run_checks_as_nobody(sound_workspace: SoundWorkspace) -> dict[str, dict[str, str]]:
    """Drops privileges after a first look has loaded all modules: they may lie where an ordinary user cannot read."""
    program = (
        "import json, os, pathlib, sys; from remit.cli.doctor import examine; from remit.core.ids import system_clock\n"
        "examine(pathlib.Path(sys.argv[1]), os.environ, system_clock)\n"
        "os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)\n"
        "print(json.dumps(examine(pathlib.Path(sys.argv[1]), os.environ, system_clock).as_json()))"
    )
    environ = {**os.environ, **sound_workspace.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", program, sound_workspace.root], env=environ, capture_output=True, check=True
    )
    document = json.loads(done.stdout)
    return {check["name"]: check for check in (*document["machine"], *document["workspace"])}


@pytest.fixture
def readable_workspace() -> Iterator[SoundWorkspace]:
    """A workspace whose parent folders everybody may pass, unlike those of `tmp_path`: only its state is closed."""
    if os.geteuid() != 0:
        pytest.skip("only root can look with somebody else's eyes")
    with tempfile.TemporaryDirectory(prefix="remit-doctor-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        sound_workspace = make_sound_workspace(Path(folder))
        sound_workspace.state.path.parent.chmod(0o755)
        yield sound_workspace


def test_root_is_warned_and_an_ordinary_user_is_not(readable_workspace: SoundWorkspace) -> None:
    assert checks_by_name(check_machine(readable_workspace.environ, system_clock))["user"].status == "warn"
    assert _run_checks_as_nobody(readable_workspace)["user"]["status"] == "ok"


def test_a_workspace_of_another_user_fails_with_its_owner_and_shows_nothing_of_it(
    readable_workspace: SoundWorkspace,
) -> None:
    checks = _run_checks_as_nobody(readable_workspace)
    assert checks["state directory"]["status"] == "fail"
    assert "belongs to user 0, not to user 65534" in checks["state directory"]["found"]
    for name in ("durable write", "key files", "keyring", "store"):
        assert checks[name]["status"] == "fail"
        assert checks[name]["next_step"]
    assert not [check for check in checks.values() if "the check itself failed" in check["found"]]


def test_root_that_checks_the_keys_of_an_ordinary_user_sees_who_owns_them(readable_workspace: SoundWorkspace) -> None:
    for path in (readable_workspace.state.keys, *readable_workspace.state.keys.rglob("*")):
        os.chown(path, 65534, 65534)
    check = readable_workspace.run_checks()["key files"]
    assert check.status == "fail"
    assert "belongs to user 65534, not to user 0" in check.found


def test_the_kernel_answers_an_ordinary_user_as_it_answers_root(readable_workspace: SoundWorkspace) -> None:
    seen = _run_checks_as_nobody(readable_workspace)
    ours = checks_by_name(tuple(machine.check_kernel(probe_kernel())))
    for name in ("Landlock", "seccomp", "no_new_privs", "openat2", "renameat2"):
        assert seen[name]["found"] == ours[name].found


def test_a_folder_that_may_not_be_entered_is_a_failed_check(readable_workspace: SoundWorkspace) -> None:
    readable_workspace.root.chmod(0o700)
    check = _run_checks_as_nobody(readable_workspace)["workspace"]
    assert check["status"] == "fail"
    assert check["found"].startswith("Permission denied")

"""The file that `-o` names: whole or untouched, and refused before anything is signed or recorded."""

import json
import os
import stat
from pathlib import Path

import pytest

from remit.cli.common.output_file import open_output
from remit.core.errors import EnvironmentFailureError, RefusedError
from tests.cli.conftest import Remit
from tests.cli.test_commands import leased, write_manifest
from tests.support.small_disks import only_root, small_disk


def entries(remit: Remit) -> int:
    return len(remit("ledger", "show", "--json").document)


@pytest.mark.parametrize(
    "command",
    [
        ("ledger", "export", "--tenant", "nosuch"),
        ("ledger", "export", "--correlation", "nosuch"),
        ("ledger", "head", "--tenant", "nosuch"),
    ],
    ids=" ".join,
)
def test_a_refused_export_leaves_the_file_that_was_there(
    remit: Remit, tmp_path: Path, command: tuple[str, ...]
) -> None:
    remit("init")
    kept = tmp_path / "project" / "kept"
    kept.write_text("precious")
    assert remit(*command, "-o", "kept").code == 2
    assert kept.read_text() == "precious"
    assert sorted(path.name for path in kept.parent.iterdir()) == ["kept", "remit.yaml"]


def test_an_output_replaces_the_old_file_whole_and_keeps_its_mode(remit: Remit, tmp_path: Path) -> None:
    remit("init")
    out = tmp_path / "project" / "head.json"
    out.write_text("x" * 100_000)
    out.chmod(0o640)
    assert remit("ledger", "head", "-o", "head.json").code == 0
    assert json.loads(out.read_text())["seq"] == 1
    assert stat.S_IMODE(out.stat().st_mode) == 0o640
    assert remit("ledger", "verify", "--head", "head.json").code == 0


@pytest.mark.parametrize("place", ["no/such/folder/lease.json", "remit.yaml", "task.json"])
def test_a_lease_that_cannot_be_handed_over_is_never_issued(remit: Remit, tmp_path: Path, place: str) -> None:
    remit("init")
    write_manifest(tmp_path)
    project = tmp_path / "project"
    before = {path.name: path.read_bytes() for path in project.iterdir()}
    ran = remit("task", "lease", "task.json", "-o", place)
    assert ran.code == 2
    assert "next:" in ran.err
    assert "nothing was done" in ran.err
    if "/" in place:
        assert str(project / "no/such/folder") in ran.err
        assert "mkdir -p" in ran.err
    assert {path.name: path.read_bytes() for path in project.iterdir()} == before
    assert entries(remit) == 1


@only_root
def test_a_lease_for_a_folder_on_a_read_only_disk_is_never_issued(remit: Remit, tmp_path: Path) -> None:
    remit("init")
    write_manifest(tmp_path)
    with small_disk(tmp_path / "disk", "64k") as disk:
        assert os.system(f"mount -o remount,ro '{disk}'") == 0  # noqa: S605 - our own folder
        ran = remit("task", "lease", "task.json", "-o", str(disk / "lease.json"))
    assert ran.code == 2
    assert "Read-only file system" in ran.err
    assert str(disk) in ran.err
    assert entries(remit) == 1


@only_root
def test_an_export_that_fills_the_disk_leaves_the_old_file(remit: Remit, tmp_path: Path) -> None:
    leased(remit, tmp_path)
    for number in range(2, 9):
        write_manifest(tmp_path, task_id=f"t-{number}")
        remit("task", "lease", "task.json", "-o", "lease.json")
    with small_disk(tmp_path / "disk", "8k") as disk:  # two blocks: one for the old file, one is too little for the new
        old = disk / "bundle.jsonl"
        old.write_text("old")
        ran = remit("ledger", "export", "-o", str(old))
        left = {path.name: path.read_text() for path in disk.iterdir()}
    assert ran.code == 1
    assert "is full" in ran.err
    assert str(old) in ran.err
    assert left == {"bundle.jsonl": "old"}


def test_a_dash_is_standard_output(remit: Remit, tmp_path: Path) -> None:
    remit("init")
    write_manifest(tmp_path)
    assert json.loads(remit("task", "lease", "task.json", "-o", "-").out)["task_id"] == "t-1"
    assert json.loads(remit("ledger", "head", "-o", "-").out)["seq"] == 2
    exported = remit("ledger", "export", "-o", "-")
    assert [json.loads(line) for line in exported.out.splitlines()][-1]["entries"] == 2
    assert "2 entries" in exported.err
    assert not (tmp_path / "project" / "-").exists()
    both = remit("ledger", "export", "-o", "-", "--json")
    assert both.code == 2
    assert "standard output" in both.document["error"]["what"]


def test_a_device_is_written_to_and_not_replaced(remit: Remit) -> None:
    remit("init")
    assert remit("ledger", "export", "-o", "/dev/null").code == 0
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    piped = remit("ledger", "head", "-o", "/dev/stdout")
    assert json.loads(piped.out.splitlines()[0])["seq"] == 1


def test_a_block_that_fails_leaves_nothing(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("precious")

    def fail() -> None:
        with open_output(kept) as out:
            out.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"kept": "precious"}


def test_a_link_is_replaced_and_what_it_leads_to_is_not_touched(tmp_path: Path) -> None:
    keyring = tmp_path / "keyring.json"
    keyring.write_bytes(b"precious")
    keyring.chmod(0o600)
    link = tmp_path / "lease.json"
    link.symlink_to(keyring)
    with open_output(link) as out:
        out.write(b"a lease")
    assert not link.is_symlink()
    assert link.read_bytes() == b"a lease"
    assert keyring.read_bytes() == b"precious"


def test_a_full_disk_is_an_environments_failure_and_a_missing_folder_a_refusal(tmp_path: Path) -> None:
    with (
        pytest.raises(RefusedError, match="the folder of the output does not exist"),
        open_output(tmp_path / "a" / "b"),
    ):
        pytest.fail("the block must not begin")
    with pytest.raises(EnvironmentFailureError), open_output(tmp_path / "c"):
        raise OSError(28, "No space left on device")
    assert list(tmp_path.iterdir()) == []

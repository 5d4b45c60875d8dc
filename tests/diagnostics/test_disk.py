"""The place where state lies."""

import subprocess
from pathlib import Path

import pytest

from remit.diagnostics import disk

MOUNTS = r"""
21 26 0:19 / /proc rw,nosuid - proc proc rw
26 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 26 0:40 / /srv/team rw - nfs4 server:/team rw,vers=4.2
31 26 0:41 / /srv/team\040files rw - cifs //server/share rw
32 26 0:42 / /run/user rw - tmpfs tmpfs rw,size=1k
33 26 0:43 / /data rw - ext4 /dev/vdb rw
34 26 0:44 / /data rw - 9p hostshare rw
this line is damaged
"""


@pytest.mark.parametrize(
    "path, point, kind",
    [
        ("/home/alice/state", "/", "ext4"),
        ("/srv/team/state", "/srv/team", "nfs4"),
        ("/srv/team", "/srv/team", "nfs4"),
        ("/srv/team files/x", "/srv/team files", "cifs"),
        ("/srv/teammate/state", "/", "ext4"),
        ("/run/user/1000", "/run/user", "tmpfs"),
        ("/data/remit", "/data", "9p"),
    ],
)
def test_the_mount_that_holds_a_path_is_found(path: str, point: str, kind: str) -> None:
    assert disk.find_mount(path, MOUNTS) == disk.Mount(point, kind)


def test_this_machines_own_mounts_can_be_read(tmp_path: Path) -> None:
    mounts = Path("/proc/self/mountinfo").read_text()
    found = disk.find_mount(str(tmp_path), mounts)
    if found is None:  # a chroot: the mount that we stand on has no name that we could see
        assert all(line.split()[4] != "/" for line in mounts.splitlines())
        return
    told = subprocess.run(["stat", "-f", "-c", "%T", tmp_path], capture_output=True, text=True, check=True).stdout
    assert found.kind[:3] in told  # stat says ext2/ext3 for ext4


def test_a_file_system_is_graded_by_what_the_ledger_needs(subtests: pytest.Subtests) -> None:
    for kind, has_database, status, next_step in [
        ("ext4", True, "ok", ""),
        ("btrfs", True, "ok", ""),
        ("nfs4", True, "fail", "local disk"),
        ("cifs", True, "fail", "local disk"),
        ("9p", True, "fail", "local disk"),
        ("fuse.sshfs", True, "fail", "local disk"),
        ("nfs4", False, "warn", "local disk"),
        ("tmpfs", True, "warn", "on a disk"),
        ("overlay", True, "warn", "volume"),
    ]:
        with subtests.test(kind):
            check = disk.check_filesystem(disk.Mount("/x", kind), has_database=has_database)
            assert (check.status, next_step in check.next_step) == (status, True)


def test_an_unknown_file_system_is_not_called_good() -> None:
    assert disk.check_filesystem(None, has_database=True).status == "absent"


@pytest.mark.parametrize(
    "free, files, status",
    [
        (10 << 30, 1_000_000, "ok"),
        (10 << 30, None, "ok"),
        (10 << 30, 12, "warn"),
        (500 << 20, 1_000_000, "warn"),
        (1 << 20, 1_000_000, "fail"),
        (0, 0, "fail"),
    ],
)
def test_free_space_is_graded_in_bytes_and_in_files(free: int, files: int | None, status: str) -> None:
    assert disk.check_space(free, files).status == status


def test_a_durable_write_is_timed_and_leaves_nothing_behind(tmp_path: Path) -> None:
    assert 0 < disk.time_durable_write(tmp_path) < 60
    assert list(tmp_path.iterdir()) == []
    assert disk.check_durable_write(0.002).status == "ok"
    assert disk.check_durable_write(0.5).status == "warn"

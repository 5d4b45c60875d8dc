"""Snapshots: whole, private, verified, and refused before a byte is copied where they would be too large."""

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from remit.core.canonical import canonical_bytes, digest_bytes
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.core.faultpoints import FAULT_POINTS
from remit.fs import openat as beneath
from remit.fs.paths import locate
from remit.tasks.snapshots import open_snapshot, take_snapshot
from tests.support import preloaded
from tests.support.child_process import Fault, run_child
from tests.support.patience import SOON
from tests.support.small_disks import only_root, small_disk

MIB = 1 << 20
CHILD = """
import sys
from pathlib import Path
from remit.tasks.snapshots import take_snapshot
from remit.fs.paths import locate
from tests.support.child_process import acknowledge
path, base, folder = sys.argv[1:]
acknowledge(take_snapshot(locate(path, [base]), Path(folder), 1 << 20))
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "base" / "file"
    path.parent.mkdir()
    path.write_bytes(b"kept" * 1000)
    path.chmod(0o4751)
    return path


def keep(path: Path, folder: Path, max_bytes: int = MIB) -> str:
    return take_snapshot(locate(str(path), [str(path.parent)]), folder, max_bytes)


@pytest.mark.req("FX-08")
def test_a_snapshot_is_private_and_has_all_that_is_needed(file: Path, tmp_path: Path) -> None:
    os.utime(file, ns=(1_600_000_000_000_000_001, -5_000_000_001))
    reference = keep(file, tmp_path / "state" / "snapshots")
    descriptor, meta = open_snapshot(tmp_path / "state" / "snapshots", reference)
    assert os.pread(descriptor, 10_000, 0) == b"kept" * 1000
    os.close(descriptor)
    found = file.stat()
    wanted = {"mode": 0o4751, "uid": found.st_uid, "gid": found.st_gid, "size": 4000, "path": str(file)}
    assert wanted.items() <= meta.items()
    assert (meta["atime_ns"], meta["mtime_ns"]) == ("1600000000000000001", "-5000000001")
    for path in (tmp_path / "state").rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600)
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700


@pytest.mark.req("PV-04")
def test_the_digest_in_a_reference_cannot_be_computed_from_what_the_file_held(file: Path, tmp_path: Path) -> None:
    """All else in the meta can be guessed: so it holds a number that cannot, and another one each time."""
    folder = tmp_path / "snapshots"
    metas = []
    for reference in (keep(file, folder), keep(file, folder)):
        descriptor, meta = open_snapshot(folder, reference)
        os.close(descriptor)
        guess = {name: value for name, value in meta.items() if name != "nonce"}
        assert digest_bytes(canonical_bytes(guess)) != reference.partition("@")[2]
        metas.append(meta)
    assert metas[0]["nonce"] != metas[1]["nonce"]
    assert {len(bytes.fromhex(meta["nonce"])) for meta in metas} == {32}


def test_a_snapshot_from_before_the_nonce_is_still_read(file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "snapshots"
    reference = keep(file, folder)
    [place] = folder.iterdir()
    meta = json.loads((place / "meta.json").read_text())
    del meta["nonce"]
    old = canonical_bytes(meta)
    (place / "meta.json").write_bytes(old)
    descriptor, found = open_snapshot(folder, f"{reference.partition('@')[0]}@{digest_bytes(old)}")
    os.close(descriptor)
    assert found == meta


@pytest.mark.req("FX-08")
def test_a_file_of_eight_terabytes_is_refused_before_it_is_copied(file: Path, tmp_path: Path) -> None:
    os.truncate(file, 8 << 40)
    start = time.monotonic()
    with pytest.raises(RefusedError) as caught:
        keep(file, tmp_path / "snapshots")
    assert caught.value.reason is Reason.RESOURCE_EXHAUSTED
    assert time.monotonic() - start < SOON
    assert not (tmp_path / "snapshots").exists()


def test_too_many_attributes_are_refused(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.setxattr(file, "user.comment", b"x" * 100)
    monkeypatch.setattr("remit.tasks.snapshots.MAX_ATTRIBUTE_BYTES", 50)
    with pytest.raises(RefusedError, match="extended attributes"):
        keep(file, tmp_path / "snapshots")


@pytest.mark.req("FX-14")
def test_a_file_that_is_not_the_expected_one_is_not_kept(file: Path, tmp_path: Path) -> None:
    base = beneath.open_base(str(file.parent))
    expected = beneath.inspect_file(base, file.name)
    os.close(base)
    file.write_bytes(b"another")
    with pytest.raises(RefusedError, match="changed or replaced"):
        take_snapshot(locate(str(file), [str(file.parent)]), tmp_path / "snapshots", MIB, expected)


@pytest.mark.parametrize("reference", ["", "snapshot:..@sha256:" + "0" * 64, "/etc/passwd", "snapshot:" + "0" * 32])
def test_what_is_no_reference_is_refused(tmp_path: Path, reference: str) -> None:
    with pytest.raises(RefusedError) as caught:
        open_snapshot(tmp_path, reference)
    assert caught.value.reason is Reason.MALFORMED


@pytest.mark.req("FX-08")
@pytest.mark.parametrize("damage", ["content", "longer", "meta", "foreign meta", "link"])
def test_a_damaged_snapshot_is_refused(file: Path, tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "snapshots"
    reference = keep(file, folder)
    [place] = folder.iterdir()
    match damage:
        case "content":
            (place / "content").write_bytes(b"KEPT" * 1000)
        case "longer":
            (place / "content").write_bytes(b"kept" * 1001)
        case "meta":
            meta = json.loads((place / "meta.json").read_text())
            (place / "meta.json").write_text(json.dumps({**meta, "mode": 0o777}))
        case "foreign meta":
            other = keep(file, folder)
            reference = reference.partition("@")[0] + "@" + other.partition("@")[2].replace("a", "b")
        case _:
            (place / "meta.json").rename(place / "old")
            (place / "meta.json").symlink_to(place / "old")
    with pytest.raises((RefusedError, EnvironmentFailureError)) as caught:
        open_snapshot(folder, reference)
    assert caught.value.next_step


@pytest.mark.req("FX-08")
@pytest.mark.parametrize("lost", ["all", "content", "meta.json"])
def test_a_lost_snapshot_is_reported_as_lost(file: Path, tmp_path: Path, lost: str) -> None:
    folder = tmp_path / "snapshots"
    reference = keep(file, folder)
    [place] = folder.iterdir()
    shutil.rmtree(place) if lost == "all" else (place / lost).unlink()
    with pytest.raises(EnvironmentFailureError) as caught:
        open_snapshot(folder, reference)
    assert caught.value.reason is Reason.STATE_MISSING


@pytest.mark.req("FX-14")
@pytest.mark.parametrize("point", sorted(point for point in FAULT_POINTS if point.startswith("snapshot.")))
def test_a_process_killed_while_keeping_a_file_leaves_no_half_snapshot_behind_a_name(
    file: Path, tmp_path: Path, point: str
) -> None:
    folder = tmp_path / "snapshots"
    command = [preloaded.python(), "-c", CHILD, str(file), str(file.parent), str(folder)]
    ended = run_child(command, fault=Fault(point))
    assert ended.killed
    assert ended.acknowledged == ()
    for place in folder.iterdir():
        whole = {"content", "meta.json"} <= {path.name for path in place.iterdir()}
        assert whole or place.name.startswith(".")
    assert run_child(command).acknowledged[0].startswith("snapshot:"), "and the next one succeeds"


@pytest.mark.parametrize("point", sorted(point for point in FAULT_POINTS if point.startswith("snapshot.")))
def test_an_error_while_keeping_a_file_leaves_nothing(file: Path, tmp_path: Path, point: str) -> None:
    folder = tmp_path / "snapshots"
    command = [preloaded.python(), "-c", CHILD, str(file), str(file.parent), str(folder)]
    ended = run_child(command, fault=Fault(point, 1, "error"))
    assert (ended.exit_code, ended.acknowledged) == (1, ())
    assert "could not write a file" in ended.output
    assert [*folder.iterdir()] == []


@only_root
@pytest.mark.req("FX-14")
def test_a_full_disk_is_reported_and_leaves_nothing(file: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "64k") as disk:
        file.write_bytes(os.urandom(MIB))
        with pytest.raises(EnvironmentFailureError) as caught:
            keep(file, disk / "snapshots")
        assert caught.value.reason is Reason.DISK_FULL
        assert [*(disk / "snapshots").iterdir()] == []

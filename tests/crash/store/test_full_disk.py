"""A disk that is really full: the error says so, nothing acknowledged is lost, and with space the ledger goes on."""

import itertools
import os
import resource
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from remit.core.errors import EnvironmentFailureError, Reason
from remit.core.ids import system_clock
from remit.crypto.keyring import create_keys, load_keyring, rotate_key
from remit.ledger.entry import Entry
from remit.ledger.writer import Ledger
from tests.crash.store.crash_workspace import Place, event, what_was_lost
from tests.crash.store.test_kill_keys import what_is_wrong
from tests.support.small_disks import only_root, small_disk

pytestmark = only_root


def fill_up(disk: Path) -> Path:
    """Take every byte that is left."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while file.write(b"x" * 4096):
                pass
        except OSError:
            pass
    return ballast


def append_for_ever(ledger: Ledger, acknowledged: list[Entry]) -> None:
    for number in itertools.count():
        acknowledged.append(ledger.append(event(number)))  # noqa: PERF401 - those before the error count


@pytest.mark.parametrize("size", ["640k", "1m"])
def test_appending_to_a_full_disk_loses_nothing(tmp_path: Path, size: str) -> None:
    with small_disk(tmp_path / "disk", size) as disk:
        place = Place(disk)
        place.prepare()
        acknowledged: list[Entry] = []
        with closing(place.ledger()) as ledger:
            with pytest.raises(EnvironmentFailureError, match=r"(?s)full.*Free some space") as full:
                append_for_ever(ledger, acknowledged)
            assert full.value.reason is Reason.DISK_FULL
            ballast = fill_up(disk)
            with pytest.raises(EnvironmentFailureError):
                append_for_ever(ledger, acknowledged)
            ballast.unlink()
        assert len(acknowledged) > 5
        subprocess.run(["mount", "-o", "remount,size=4m", str(disk)], check=True)
        words = tuple(f"{entry.tenant_id} {entry.seq} {entry.hash}" for entry in acknowledged)
        assert what_was_lost(place, words) == []


@pytest.mark.parametrize("left", [0, 4, 8, 16, 24, 28, 32, 40, 48])
def test_a_disk_with_next_to_nothing_left_is_called_full(tmp_path: Path, left: int) -> None:
    """Which of its files SQLite fails to write, and what it calls that, depends on the last few kilobytes."""
    with small_disk(tmp_path / "disk", "2m") as disk:
        place = Place(disk)
        place.prepare()
        ballast = fill_up(disk)
        os.truncate(ballast, ballast.stat().st_size - left * 1024)
        with pytest.raises(EnvironmentFailureError) as full, closing(place.ledger()) as ledger:
            append_for_ever(ledger, [])
        assert full.value.reason is Reason.DISK_FULL
        # Once the outcome is unknown, looking comes first.
        assert any(advice in str(full.value) for advice in ("Free some space", "Look first"))
        ballast.unlink()
        with closing(place.ledger()) as ledger:
            ledger.append(event(1))


def test_a_limit_on_the_size_of_files_is_named(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.prepare()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (256 * 1024, hard))
    try:
        with pytest.raises(EnvironmentFailureError) as full, closing(place.ledger()) as ledger:
            append_for_ever(ledger, [])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert full.value.reason is Reason.DISK_FULL
    assert "a file cannot grow any further" in str(full.value)
    with closing(place.ledger()) as ledger:
        ledger.append(event(1))


def test_rotating_a_key_on_a_full_disk_keeps_the_old_one(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "256k") as disk:
        place = Place(disk)
        before = create_keys(place.keys, system_clock)
        ballast = fill_up(disk)
        with pytest.raises(EnvironmentFailureError) as full:
            rotate_key(place.keys, "audit", system_clock)
        assert full.value.reason is Reason.DISK_FULL
        assert list(load_keyring(place.keys)) == list(before)
        ballast.unlink()
        assert what_is_wrong(place) == []
        rotate_key(place.keys, "audit", system_clock)
        assert what_is_wrong(place) == []

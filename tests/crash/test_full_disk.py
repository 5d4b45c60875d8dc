"""A disk that is really full: the error says so, nothing acknowledged is lost, and with space the ledger goes on."""

import itertools
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from remit.authority.keys import create_keys, load_keyring, rotate_key
from remit.errors import EnvironmentFailed, Reason
from remit.ids import system_clock
from remit.ledger.append import Ledger
from remit.ledger.entry import Entry
from tests.crash.place import Place, event, what_was_lost
from tests.crash.test_kill_keys import what_is_wrong
from tests.disks import only_root, small_disk

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


@pytest.mark.parametrize("size", ["400k", "1m"])
def test_appending_to_a_full_disk_loses_nothing(tmp_path: Path, size: str) -> None:
    with small_disk(tmp_path / "disk", size) as disk:
        place = Place(disk)
        place.prepare()
        acknowledged: list[Entry] = []
        with closing(place.ledger()) as ledger:
            with pytest.raises(EnvironmentFailed, match=r"the disk is full.*Free some space") as full:
                append_for_ever(ledger, acknowledged)
            assert full.value.reason is Reason.DISK_FULL
            ballast = fill_up(disk)
            with pytest.raises(EnvironmentFailed):
                append_for_ever(ledger, acknowledged)
            ballast.unlink()
        assert len(acknowledged) > 5
        subprocess.run(["mount", "-o", "remount,size=4m", str(disk)], check=True)
        words = tuple(f"{entry.tenant_id} {entry.seq} {entry.hash}" for entry in acknowledged)
        assert what_was_lost(place, words) == []


def test_rotating_a_key_on_a_full_disk_keeps_the_old_one(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "256k") as disk:
        place = Place(disk)
        before = create_keys(place.keys, system_clock)
        ballast = fill_up(disk)
        with pytest.raises(EnvironmentFailed) as full:
            rotate_key(place.keys, "audit", system_clock)
        assert full.value.reason is Reason.DISK_FULL
        assert list(load_keyring(place.keys)) == list(before)
        ballast.unlink()
        assert what_is_wrong(place) == []
        rotate_key(place.keys, "audit", system_clock)
        assert what_is_wrong(place) == []

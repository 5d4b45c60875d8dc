"""Pictures are kept for as long as the settings say, and within the bytes that they allow."""

import os
from pathlib import Path

import pytest

from remit.browser.screenshots import PRUNED_AFTER, SPARED_SECONDS, Pictures

NOW = 2_000_000_000.0
DAY = 86_400


def made(pictures: Pictures, age: float) -> Path:
    path = Path(pictures.save(b"x" * 1_000, durably=age > DAY))
    os.utime(path, (NOW - age, NOW - age))
    return path


def test_the_old_go_and_then_the_oldest_beyond_the_bytes_but_none_of_the_last_hour(tmp_path: Path) -> None:
    pictures = Pictures(tmp_path / "screens", most_days=30, most_bytes=3_500)
    assert pictures.prune(NOW) == 0
    ages = {name: made(pictures, age) for name, age in (
        ("now", 1), ("just", SPARED_SECONDS - 1), ("today", SPARED_SECONDS + 1), ("week", 7 * DAY), ("old", 31 * DAY),
    )}  # fmt: skip
    other = tmp_path / "screens" / "notes.png"
    other.write_bytes(b"x" * 10_000)
    os.utime(other, (0, 0))
    assert pictures.prune(NOW) == 2
    assert {name for name, path in ages.items() if path.exists()} == {"now", "just", "today"}
    assert other.exists()
    crowded = Pictures(tmp_path / "screens", most_days=30, most_bytes=1)
    assert crowded.prune(NOW) == 1
    assert {name for name, path in ages.items() if path.exists()} == {"now", "just"}


@pytest.mark.parametrize("durably", [True, False])
def test_only_the_owner_can_read_a_screenshot(tmp_path: Path, *, durably: bool) -> None:
    path = Path(Pictures(tmp_path / "screens", most_days=1, most_bytes=1).save(b"picture", durably=durably))
    assert path.read_bytes() == b"picture"
    assert [oct(each.stat().st_mode & 0o777) for each in (path, path.parent)] == ["0o600", "0o700"]


def test_it_is_time_to_prune_after_so_many(tmp_path: Path) -> None:
    pictures = Pictures(tmp_path / "screens", most_days=1, most_bytes=1)
    due = [pictures.save(b"", durably=False) and pictures.is_pruning_due for _ in range(PRUNED_AFTER)]
    assert due == [False] * (PRUNED_AFTER - 1) + [True]

"""An anchor that cannot be kept is said so before the commit, and one that somebody spoilt is not written over."""

import contextlib
import errno
import logging
import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from remit.core.errors import EnvironmentFailureError, Reason
from remit.ledger import anchor_file
from remit.ledger.anchor_file import SLOT
from remit.ledger.entry import NewEntry
from remit.ledger.findings import RecordFault
from remit.ledger.heads import MAX_OPEN, Anchors
from tests.support.store_fixtures import World

ONE = NewEntry("acme", "test.event", "corr", {})


def anchor_of(world: World) -> Path:
    return Path(world.anchors.where("acme"))


def make_directory(path: Path) -> None:
    path.unlink()
    path.mkdir(0o700)


def make_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def make_dangling_link(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.with_name("nothing"))


def make_link(path: Path) -> None:
    path.rename(path.with_suffix(".moved"))
    path.symlink_to(path.with_suffix(".moved"))


def make_second_name(path: Path) -> None:
    os.link(path, path.with_suffix(".other"))


def open_to_others(path: Path) -> None:
    path.chmod(0o644)


GARBAGE = {
    "noise": b"\xff" * 2 * SLOT,
    "words": b"garbage" * 2000,
    "nothing": b"",
    "a part": b"\n" * 100,
    "zeros": b"\0" * 2 * SLOT,
}
SPOILERS = [make_directory, make_fifo, make_dangling_link, make_link, make_second_name, open_to_others]


@pytest.mark.parametrize("writer", ["a new process", "the same process"])
@pytest.mark.parametrize("spoil", SPOILERS)
def test_an_anchor_that_is_no_private_file_stops_the_commit(
    world: World, spoil: Callable[[Path], None], writer: str
) -> None:
    world.append("acme", 2)
    if (
        writer == "a new process" or spoil is make_second_name
    ):  # the open file is the very same: only a new process looks at its names
        world.reopen()
    spoil(anchor_of(world))
    with pytest.raises(EnvironmentFailureError, match="the anchor") as caught:
        world.ledger.append(ONE)
    assert caught.value.reason is Reason.STATE_UNSAFE
    assert caught.value.where == str(anchor_of(world))
    assert world.verify().entries == 2, "nothing was committed"


@pytest.mark.parametrize("writer", ["a new process", "the same process"])
@pytest.mark.parametrize("garbage", GARBAGE)
def test_garbage_in_an_anchor_is_not_written_over(world: World, garbage: str, writer: str) -> None:
    content = GARBAGE[garbage]
    world.append("acme", 2)
    if writer == "a new process":
        world.reopen()
    anchor_of(world).write_bytes(content)
    for _ in range(2):
        with pytest.raises(EnvironmentFailureError, match="no readable head of its tenant") as caught:
            world.ledger.append(ONE)
        assert caught.value.reason is Reason.EVIDENCE_INVALID
        assert "remit ledger verify" in caught.value.next_step
    assert anchor_of(world).read_bytes() == content, "the trace is still there"
    assert world.found() == {(RecordFault.ANCHOR_UNREADABLE, "", None)}
    anchor_of(world).rename(anchor_of(world).with_suffix(".kept"))
    world.append("acme", 1)
    assert world.verify().holds


def test_an_anchor_of_another_tenant_is_not_written_over(world: World) -> None:
    world.append("acme", 2)
    world.append("zeta", 1)
    world.reopen()
    shutil.copy(world.anchors.where("zeta"), anchor_of(world))
    with pytest.raises(EnvironmentFailureError, match="no readable head of its tenant"):
        world.ledger.append(ONE)


@pytest.mark.parametrize("writer", ["a new process", "the same process"])
@pytest.mark.parametrize("slot", [0, SLOT])
def test_a_number_that_lies_does_not_keep_newer_heads_from_being_recorded(world: World, slot: int, writer: str) -> None:
    world.append("acme", 4)
    if writer == "a new process":
        world.reopen()
    raw = bytearray(anchor_of(world).read_bytes())
    raw[slot : slot + 20] = b"9" * 20
    anchor_of(world).write_bytes(raw)
    for _ in range(2):
        world.append("acme", 1)
    head = world.anchors.read("acme")
    assert head is not None
    assert head.seq == 6
    assert world.verify().holds


def test_no_descriptor_left_for_the_anchor_stops_the_commit(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.append("acme", 1)
    world.anchors.close()
    world.ledger.anchors.close()
    honest = os.open

    def none_left(path: str, *rest: int) -> int:
        if str(path).endswith(".anchor"):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return honest(path, *rest)

    monkeypatch.setattr(os, "open", none_left)
    with pytest.raises(EnvironmentFailureError, match="too many files are open") as caught:
        world.ledger.append(ONE)
    assert "ulimit -n" in caught.value.next_step
    with pytest.raises(EnvironmentFailureError, match="too many files are open"):
        world.verify()  # not: the anchor is unreadable, which would accuse somebody
    monkeypatch.undo()
    assert world.verify().entries == 1
    world.append("acme", 1)


@pytest.mark.parametrize("dialect", ["sqlite"])
def test_with_few_descriptors_an_acknowledged_entry_has_its_anchor(world: World) -> None:
    """Really few: whatever fails, what was acknowledged is anchored."""
    world.append("acme", 1)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    refused = 0
    acknowledged = 1
    for spare in range(9):
        world.ledger.close()
        with contextlib.ExitStack() as taken:
            while taken.enter_context(open(os.devnull)).fileno() < max(map(int, os.listdir("/proc/self/fd"))) - 1:
                pass  # no number is left free below the limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) - 1 + spare, hard))
            try:
                acknowledged = world.ledger.append(ONE).seq
            except EnvironmentFailureError:
                refused += 1
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        head = Anchors(world.anchor_folder).read("acme")
        assert head is not None
        assert head.seq == acknowledged
    assert refused
    assert acknowledged > 1


def test_an_anchor_that_fails_after_the_commit_is_logged_and_made_good_at_the_end(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world.append("acme", 1)

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with caplog.at_level(logging.WARNING, "remit.ledger"), monkeypatch.context() as broken:
        broken.setattr(anchor_file.AnchorFile, "record", fail)
        assert world.ledger.append(ONE).seq == 2
    assert "the anchor of entry 2 was not written" in caplog.text
    world.ledger.close()
    head = world.anchors.read("acme")
    assert head is not None
    assert head.seq == 2


def test_more_tenants_than_files_are_kept_open_are_all_anchored(world: World) -> None:
    count = MAX_OPEN + 6
    world.ledger.transact(
        lambda batch: [batch.append(NewEntry(f"tenant-{number}", "test.event", "corr", {})) for number in range(count)]
    )
    verdict = world.verify()
    assert verdict.holds
    assert verdict.anchored == count

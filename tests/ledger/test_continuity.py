"""A chain that lost what we vouched for is not continued: each further entry would bury the evidence."""

import shutil
from pathlib import Path

import pytest

from remit.core.errors import EnvironmentFailureError, Reason
from remit.ledger.entry import NewEntry
from remit.ledger.findings import RecordFault
from remit.ledger.heads import Anchors
from tests.support.store_fixtures import World, open_ledger

ONE = NewEntry("acme", "test.event", "corr", {})


def cut(world: World, after: int) -> None:
    world.attacker.tamper(
        f"DELETE FROM ledger_entries WHERE tenant_id = 'acme' AND seq > {after}",
        f"DELETE FROM ledger_heads WHERE tenant_id = 'acme' AND seq > {after}",
    )


def assert_not_continued(world: World, seq: int) -> None:
    with pytest.raises(EnvironmentFailureError, match=f"no longer holds entry {seq}") as caught:
        world.ledger.append(ONE)
    assert caught.value.reason is Reason.EVIDENCE_INVALID
    assert caught.value.where == world.anchors.where("acme")


@pytest.mark.parametrize("length", [0, 3])
@pytest.mark.parametrize("restarted", ["the same process", "a new process"])
def test_a_chain_cut_short_is_not_continued(world: World, length: int, restarted: str) -> None:
    world.append("acme", 5)
    cut(world, length)
    if restarted == "a new process":
        world.reopen()
    assert_not_continued(world, 5)
    assert world.found() == {(RecordFault.TRUNCATED, "acme", length + 1)}, "the evidence is still there"
    world.append("zeta", 1)


def test_a_chain_whose_last_entry_was_replaced_is_not_continued(world: World) -> None:
    world.append("acme", 3)
    world.attacker.tamper(f"UPDATE ledger_entries SET hash = 'sha256:{'0' * 64}' WHERE seq = 3")
    world.reopen()
    assert_not_continued(world, 3)


def test_a_chain_that_others_continued_and_then_lost_our_last_entry_is_not_continued(world: World) -> None:
    world.append("acme", 3)
    other = open_ledger(world.store, world.keys, world.anchor_folder, world.clock)
    other.append(ONE)
    other.close()
    world.append("acme", 1)
    other = open_ledger(world.store, world.keys, world.anchor_folder, world.clock)
    other.append(ONE)
    other.close()
    world.attacker.tamper("DELETE FROM ledger_entries WHERE seq = 5")
    assert_not_continued(world, 5)


def test_what_other_writers_add_is_no_obstacle(world: World) -> None:
    other = open_ledger(world.store, world.keys, world.anchor_folder, world.clock)
    for _ in range(3):
        world.append("acme", 2)
        other.append(ONE)
    other.close()
    assert world.verify().entries == 9
    assert world.verify().holds


def test_a_backup_restored_on_purpose_goes_on_once_the_anchor_is_moved_away(world: World, tmp_path: Path) -> None:
    world.append("acme", 5)
    cut(world, 3)
    world.reopen()
    assert_not_continued(world, 5)
    shutil.move(world.anchors.where("acme"), tmp_path / "kept-for-the-inquiry")
    world.append("acme", 1)
    assert world.verify().holds
    assert world.verify().entries == 4


def test_heads_of_entries_that_are_gone_stop_the_writer(world: World) -> None:
    world.append("acme", 3)
    world.attacker.tamper("DELETE FROM ledger_entries WHERE seq = 3")
    Path(world.anchors.where("acme")).unlink()
    world.reopen()
    with pytest.raises(EnvironmentFailureError, match="no head signed by a key of this workspace") as caught:
        world.ledger.append(ONE)
    assert caught.value.reason is Reason.EVIDENCE_INVALID


def test_an_anchor_that_cannot_be_made_stops_the_commit(world: World) -> None:
    world.append("acme", 1)
    shutil.rmtree(world.anchor_folder)
    world.anchor_folder.write_text("in the way")
    with pytest.raises(EnvironmentFailureError, match="could not write a file"):
        world.ledger.append(ONE)
    world.anchor_folder.unlink()
    assert world.verify().entries == 1
    world.append("acme", 1)
    assert world.verify().entries == 2


def test_an_anchor_that_fails_after_the_commit_is_made_good_before_the_next(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too late to tell the caller that it failed; so the entry counts, and the debt is paid before another one."""
    world.append("acme", 1)

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Anchors, "_write", fail)
    assert world.ledger.append(ONE).seq == 2
    with pytest.raises(EnvironmentFailureError, match="could not write a file"):
        world.ledger.append(ONE)
    monkeypatch.undo()
    head = world.anchors.read("acme")
    assert head is not None
    assert head.seq == 1
    world.append("acme", 1)
    verdict = world.verify()
    assert verdict.findings == []
    assert verdict.entries == 3
    head = world.anchors.read("acme")
    assert head is not None
    assert head.seq == 3

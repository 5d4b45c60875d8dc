"""A tail cut off, an old head put back, a history forged or forked: heads, anchors or a head kept away tell."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from remit.contracts.ledger import LedgerHead
from remit.crypto.keyring import rotate_key
from remit.ledger.anchor_file import BLANK, SLOT
from remit.ledger.bundle import newest_head
from remit.ledger.entry import NewEntry
from remit.ledger.findings import RecordFault
from remit.ledger.heads import Anchors
from remit.ledger.heads_check import HeadsCheck
from remit.ledger.writer import Ledger
from tests.support.store_fixtures import World


@pytest.fixture
def history(world: World) -> World:
    world.append("acme", 8)
    world.append("zeta", 3)
    assert world.verify().holds
    return world


def kept_head(world: World, tenant_id: str = "acme") -> LedgerHead:
    """What an auditor exported and keeps out of the attacker's reach."""
    with world.store.reading() as connection:
        return newest_head(connection, tenant_id)


def anchor_of(world: World, tenant_id: str = "acme") -> Path:
    return Path(world.anchors.where(tenant_id))


def cut(world: World, tenant_id: str, after: int, *tables: str) -> None:
    world.attacker.tamper(
        *(f"DELETE FROM {table} WHERE tenant_id = '{tenant_id}' AND seq > {after}" for table in tables)
    )


@pytest.mark.parametrize("length", [0, 6, 7])
@pytest.mark.parametrize("tables", [("ledger_entries",), ("ledger_entries", "ledger_heads")], ids="+".join)
def test_a_cut_off_tail_is_named(history: World, tables: tuple[str, ...], length: int) -> None:
    cut(history, "acme", length, *tables)
    assert history.found() == {(RecordFault.TRUNCATED, "acme", length + 1)}


def test_the_tests_of_cut_tails_depend_on_the_head_check(history: World, monkeypatch: pytest.MonkeyPatch) -> None:
    cut(history, "acme", 6, "ledger_entries", "ledger_heads")
    assert history.found() == {(RecordFault.TRUNCATED, "acme", 7)}
    monkeypatch.setattr(HeadsCheck, "finish", lambda *_: None)
    assert history.found() == set()


def test_heads_alone_betray_a_tenant_without_entries_or_anchor(history: World) -> None:
    cut(history, "acme", 0, "ledger_entries")
    anchor_of(history).unlink()
    assert history.found() == {(RecordFault.TRUNCATED, "acme", 1)}


@pytest.mark.parametrize("length", [0, 6])
def test_a_tail_cut_off_together_with_a_restored_old_anchor_is_found_by_a_head_kept_on_another_machine(
    world: World, tmp_path: Path, length: int
) -> None:
    """The limit of what a machine can know of itself: whoever controls all of it can turn all of it back."""
    world.append("acme", length)
    if length:
        shutil.copy(anchor_of(world), tmp_path / "old.anchor")
    world.append("acme", 8 - length)
    kept = kept_head(world)
    cut(world, "acme", length, "ledger_entries", "ledger_heads")
    anchor_of(world).unlink()
    if length:
        shutil.copy(tmp_path / "old.anchor", anchor_of(world))
    assert world.found() == set()
    assert world.found(kept) == {(RecordFault.TRUNCATED, "acme", length + 1)}


def test_newer_heads_deleted_leave_the_tail_unsigned(history: World) -> None:
    history.attacker.tamper("DELETE FROM ledger_heads WHERE tenant_id = 'acme' AND seq > 5")
    assert history.found() == {(RecordFault.UNSIGNED_TAIL, "acme", 6)}


def test_an_old_head_in_the_place_of_the_newest_is_named(history: World) -> None:
    history.attacker.tamper(
        "UPDATE ledger_heads SET hash = (SELECT h.hash FROM ledger_heads h WHERE h.tenant_id = 'acme' AND h.seq = 5),"
        " signature = (SELECT h.signature FROM ledger_heads h WHERE h.tenant_id = 'acme' AND h.seq = 5)"
        " WHERE tenant_id = 'acme' AND seq = 8"
    )
    assert history.found() == {(RecordFault.HEAD_FORGED, "acme", 8), (RecordFault.UNSIGNED_TAIL, "acme", 8)}


@pytest.mark.parametrize(
    "change",
    [
        "signature = 'A' || substr(signature, 2, 84) || 'A'",
        "signature = ''",
        "signature = 'not a signature'",
        "hash = 'sha256:' || substr(hash, 9) || '0'",
        "signed_at = '2026-06-01T00:00:00.000000Z'",
        "signed_at = 'yesterday'",
    ],
)
def test_a_changed_head_is_named(history: World, change: str) -> None:
    history.attacker.tamper(f"UPDATE ledger_heads SET {change} WHERE tenant_id = 'acme' AND seq = 4")
    assert history.found() == {(RecordFault.HEAD_FORGED, "acme", 4)}


def test_a_head_signed_by_an_unknown_key_is_named(history: World) -> None:
    history.attacker.tamper("UPDATE ledger_heads SET key_id = 'x' WHERE tenant_id = 'acme' AND seq = 4")
    assert history.found() == {(RecordFault.HEAD_UNKNOWN_KEY, "acme", 4)}


def test_heads_exchanged_between_tenants_are_named(history: World) -> None:
    history.attacker.tamper(
        "UPDATE ledger_heads SET tenant_id = 'nobody' WHERE tenant_id = 'acme' AND seq = 2",
        "UPDATE ledger_heads SET tenant_id = 'acme' WHERE tenant_id = 'zeta' AND seq = 2",
        "UPDATE ledger_heads SET tenant_id = 'zeta' WHERE tenant_id = 'nobody'",
    )
    assert history.found() == {(RecordFault.HEAD_FORGED, "acme", 2), (RecordFault.HEAD_FORGED, "zeta", 2)}


def test_a_head_signed_by_a_key_after_its_retirement_is_named(history: World) -> None:
    old = history.signer
    rotate_key(history.keys, "audit", history.clock)
    with closing(Ledger(history.store, lambda: old, lambda: history.keyring, history.anchors, history.clock)) as rogue:
        rogue.append(NewEntry("acme", "test.event", "corr", {}))
    assert history.found() == {(RecordFault.HEAD_UNKNOWN_KEY, "acme", 9), (RecordFault.UNSIGNED_TAIL, "acme", 9)}


def test_a_fork_from_an_old_copy_is_named_by_the_other_copys_head(world: World, tmp_path: Path) -> None:
    """Both copies are whole, signed and anchored. Only side by side do they contradict each other."""
    world.append("acme", 5)
    shutil.copy(anchor_of(world), tmp_path / "old.anchor")
    world.append("acme", 3, copy="first")
    first = kept_head(world)
    cut(world, "acme", 5, "ledger_entries", "ledger_heads")
    shutil.copy(tmp_path / "old.anchor", anchor_of(world))
    world.reopen()
    world.append("acme", 2, copy="second")
    assert world.found(first) == {(RecordFault.TRUNCATED, "acme", 8)}, "the second copy is shorter"
    world.append("acme", 2, copy="second")
    assert world.found() == set()
    assert world.found(first) == {(RecordFault.FORKED, "acme", 8)}


def test_a_head_kept_on_another_machine_is_believed_only_with_a_good_signature(history: World) -> None:
    kept = kept_head(history)
    assert history.found(kept) == set()
    forged = kept.model_copy(update={"seq": 20})
    assert history.found(forged) == {(RecordFault.HEAD_FORGED, "acme", 20)}
    foreign = kept.model_copy(update={"key_id": "A" * 43})
    assert history.found(foreign) == {(RecordFault.HEAD_UNKNOWN_KEY, "acme", 8)}


@pytest.mark.parametrize("damage", [b"", b"\0" * 2 * SLOT, b"garbage" * 2000, BLANK[:100]])
def test_a_damaged_anchor_is_named(history: World, damage: bytes) -> None:
    anchor_of(history).write_bytes(damage)
    verdict = history.verify()
    assert [(one.fault, anchor_of(history).name in one.what) for one in verdict.findings] == [
        (RecordFault.ANCHOR_UNREADABLE, True)
    ]
    assert verdict.anchored == 1, "zeta's is still good"


def test_one_spoilt_slot_costs_the_newest_head_only(history: World) -> None:
    """As a power cut may leave it: the other slot still holds the head before."""
    raw = bytearray(anchor_of(history).read_bytes())
    newest = 0 if raw[:20] > raw[SLOT : SLOT + 20] else SLOT
    raw[newest + 100] ^= 0xFF
    anchor_of(history).write_bytes(raw)
    assert history.found() == set()
    cut(history, "acme", 6, "ledger_entries", "ledger_heads")
    assert history.found() == {(RecordFault.TRUNCATED, "acme", 7)}


def test_a_forged_anchor_is_named(history: World) -> None:
    raw = anchor_of(history).read_bytes()
    anchor_of(history).write_bytes(raw.replace(b'"signed_at":"2026', b'"signed_at":"2027'))
    assert history.found() == {(RecordFault.HEAD_FORGED, "acme", 8)}


def test_an_anchor_of_another_tenant_is_named(history: World) -> None:
    shutil.copy(anchor_of(history, "zeta"), anchor_of(history, "acme"))
    assert history.found() == {(RecordFault.ANCHOR_UNREADABLE, "", None)}


def test_an_anchor_that_claims_a_higher_number_than_its_head_is_named(history: World) -> None:
    """Such a number would keep newer heads from being recorded."""
    raw = anchor_of(history).read_bytes()
    anchor_of(history).write_bytes(raw.replace(b"0" * 19, b"9" * 19))
    assert history.found() == {(RecordFault.ANCHOR_UNREADABLE, "", None)}


def test_a_link_in_the_place_of_an_anchor_is_not_followed(history: World, tmp_path: Path) -> None:
    shutil.move(anchor_of(history), tmp_path / "moved")
    anchor_of(history).symlink_to(tmp_path / "moved")
    assert history.found() == {(RecordFault.ANCHOR_UNREADABLE, "", None)}


def test_an_append_while_we_verify_raises_no_alarm(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The anchors we look at must not be newer than the view of the store."""
    world.append("acme", 2)
    honest = Anchors.__iter__

    def append_then_look(anchors: Anchors) -> Iterator[tuple[str, LedgerHead | None]]:
        world.append("acme", 1)
        return honest(anchors)

    monkeypatch.setattr(Anchors, "__iter__", append_then_look)
    verdict = world.verify()
    assert verdict.holds
    assert verdict.entries == 3

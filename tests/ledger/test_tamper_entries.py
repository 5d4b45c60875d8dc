"""Whoever edits, removes, moves or rewrites entries is found and named, also with the triggers put back afterwards."""

from pathlib import Path

import pytest

from remit.crypto.keyring import create_keys, load_signer
from remit.ledger.entry import COLUMNS, GENESIS, Entry
from remit.ledger.findings import RecordFault
from remit.ledger.heads import sign_head
from tests.support.store_fixtures import Found, World

ELSEWHERE = "sha256:" + "ab" * 32
EDITS = {
    "entry_id": "00000000-0000-7000-8000-000000000000",
    "created_at": "2026-01-01T00:00:00.000001Z",
    "kind": "test.other",
    "correlation_id": "corr-9",
    "task_id": "task-9",
    "capability_id": "FILE_DELETE",
    "actor": "mallory",
    "payload": '{"number":40}',
    "prev_hash": ELSEWHERE,
    "hash": ELSEWHERE,
}


@pytest.fixture
def history(world: World) -> World:
    """Two tenants, each append a transaction of its own, so that every entry has a signed head."""
    world.append("acme", 8)
    world.append("zeta", 5)
    assert world.verify().holds
    return world


def rewrite_from(world: World, first: int, *, payload: str = '{"number":0}') -> list[Entry]:
    """Change entry `first` of acme and recompute every hash after it. The triggers must be off."""
    rewritten: list[Entry] = []
    previous = world.attacker.entry("acme", first - 1).hash if first > 1 else GENESIS
    for seq in range(first, 9):
        old = world.attacker.entry("acme", seq)
        new = old._replace(prev_hash=previous, payload=payload if seq == first else old.payload)
        new = new._replace(hash=new.expected_hash())
        world.attacker.write_entry(old, new)
        rewritten.append(new)
        previous = new.hash
    return rewritten


def test_every_column_has_an_edit_here() -> None:
    assert {*EDITS, "tenant_id", "seq"} == {name.strip() for name in COLUMNS.split(",")}


@pytest.mark.parametrize("column", EDITS)
def test_an_edit_of_any_column_is_named(history: World, column: str) -> None:
    change = (f"UPDATE ledger_entries SET {column} = ? WHERE tenant_id = 'acme' AND seq = 4", (EDITS[column],))
    history.attacker.tamper(change)
    expected: Found = {(RecordFault.EDITED, "acme", 4)}
    if column == "created_at":
        expected.add((RecordFault.CLOCK_REVERSED, "acme", 4))
    if column == "hash":  # neither its head nor its successor points here any more
        expected |= {(RecordFault.FORKED, "acme", 4), (RecordFault.BROKEN_LINK, "acme", 5)}
    assert history.found() == expected


@pytest.mark.parametrize("column", ["task_id", "capability_id", "actor"])
def test_an_emptied_column_is_named(history: World, column: str) -> None:
    history.attacker.tamper(f"UPDATE ledger_entries SET {column} = NULL WHERE tenant_id = 'acme' AND seq = 4")
    assert history.found() == {(RecordFault.EDITED, "acme", 4)}


def test_an_entry_given_to_a_tenant_that_never_was_is_named(history: World) -> None:
    history.attacker.tamper("UPDATE ledger_entries SET tenant_id = 'ghost' WHERE tenant_id = 'acme' AND seq = 4")
    assert history.found() == {
        (RecordFault.MISSING, "acme", 4),
        (RecordFault.MISSING, "ghost", 1),
        (RecordFault.EDITED, "ghost", 4),
        (RecordFault.UNSIGNED_TAIL, "ghost", 1),
    }


def test_an_entry_given_another_number_is_named(history: World) -> None:
    history.attacker.tamper("UPDATE ledger_entries SET seq = 400 WHERE tenant_id = 'acme' AND seq = 4")
    found = history.found()
    assert {(RecordFault.MISSING, "acme", 4), (RecordFault.EDITED, "acme", 400)} <= found


@pytest.mark.parametrize(
    "before,after", [(("ab", "c"), ("a", "bc")), (("ab", "c"), ("abc", None)), (('a","x":"b', "c"), ("a", 'b"'))]
)
def test_a_shifted_field_boundary_is_named(
    world: World, before: tuple[str, str], after: tuple[str, str | None]
) -> None:
    """Equal when the fields are written one behind the other; not equal when they are hashed."""
    world.append("acme", 2)
    world.attacker.drop_guards()
    entry = world.attacker.entry("acme", 2)._replace(task_id=before[0], capability_id=before[1])
    world.attacker.write_entry(world.attacker.entry("acme", 2), entry._replace(hash=entry.expected_hash()))
    shifted = world.attacker.entry("acme", 2)._replace(task_id=after[0], capability_id=after[1])
    world.attacker.write_entry(entry, shifted)
    world.attacker.restore_guards()
    assert (RecordFault.EDITED, "acme", 2) in world.found()


def test_an_edit_with_its_hash_recomputed_is_named(history: World) -> None:
    old = history.attacker.entry("acme", 4)
    new = old._replace(payload='{"number":40}')
    history.attacker.drop_guards()
    history.attacker.write_entry(old, new._replace(hash=new.expected_hash()))
    history.attacker.restore_guards()
    assert history.found() == {(RecordFault.FORKED, "acme", 4), (RecordFault.BROKEN_LINK, "acme", 5)}


def test_a_tail_rewritten_without_the_key_contradicts_its_heads(history: World) -> None:
    history.attacker.drop_guards()
    rewrite_from(history, 4)
    history.attacker.restore_guards()
    heads = {(RecordFault.FORKED, "acme", seq) for seq in range(4, 9)}
    assert history.found() == {*heads, (RecordFault.UNSIGNED_TAIL, "acme", 4)}


def test_a_rewritten_tail_without_its_heads_is_unsigned_and_contradicts_the_anchor(history: World) -> None:
    history.attacker.drop_guards()
    rewrite_from(history, 4)
    history.attacker.run("DELETE FROM ledger_heads WHERE tenant_id = 'acme' AND seq >= 4")
    history.attacker.restore_guards()
    assert history.found() == {(RecordFault.UNSIGNED_TAIL, "acme", 4), (RecordFault.FORKED, "acme", 8)}


@pytest.mark.parametrize("first", [1, 4])
@pytest.mark.parametrize("named", [RecordFault.HEAD_FORGED, RecordFault.HEAD_UNKNOWN_KEY])
def test_a_rewrite_signed_with_a_foreign_key_is_named(
    history: World, tmp_path: Path, first: int, named: RecordFault
) -> None:
    """The forger names our key, whose signature then does not fit, or his own, which nobody knows."""
    create_keys(tmp_path / "foreign", history.clock)
    stranger = load_signer(tmp_path / "foreign", "audit")
    ours = history.attacker.run("SELECT key_id FROM ledger_heads WHERE tenant_id = 'acme' AND seq = 8")[0][0]
    history.attacker.drop_guards()
    for entry in rewrite_from(history, first):
        head = sign_head(stranger, "acme", entry.seq, entry.hash, entry.created_at)
        history.attacker.run(
            "UPDATE ledger_heads SET hash = ?, signed_at = ?, key_id = ?, signature = ?"
            " WHERE tenant_id = 'acme' AND seq = ?",
            (
                head.hash,
                head.signed_at,
                ours if named is RecordFault.HEAD_FORGED else head.key_id,
                head.signature,
                head.seq,
            ),
        )
    history.attacker.restore_guards()
    assert {(named, "acme", seq) for seq in range(first, 9)} < history.found()
    assert {(RecordFault.UNSIGNED_TAIL, "acme", first), (RecordFault.FORKED, "acme", 8)} < history.found()


def test_a_deleted_entry_is_named(history: World) -> None:
    history.attacker.tamper("DELETE FROM ledger_entries WHERE tenant_id = 'acme' AND seq = 4")
    assert history.found() == {(RecordFault.MISSING, "acme", 4)}


def test_a_deleted_first_entry_is_named(history: World) -> None:
    history.attacker.tamper("DELETE FROM ledger_entries WHERE tenant_id = 'acme' AND seq = 1")
    assert history.found() == {(RecordFault.MISSING, "acme", 1)}


def test_a_deletion_with_the_gap_closed_is_named(history: World) -> None:
    history.attacker.drop_guards()
    history.attacker.run("DELETE FROM ledger_entries WHERE tenant_id = 'acme' AND seq = 4")
    for seq in range(5, 9):
        history.attacker.run("UPDATE ledger_entries SET seq = ? WHERE tenant_id = 'acme' AND seq = ?", (seq - 1, seq))
    history.attacker.restore_guards()
    found = history.found()
    assert {(RecordFault.REORDERED, "acme", seq) for seq in (4, 5, 6)} < found
    assert (RecordFault.TRUNCATED, "acme", 8) in found


def test_two_entries_swapped_are_named(history: World) -> None:
    history.attacker.tamper(
        "UPDATE ledger_entries SET seq = 99 WHERE tenant_id = 'acme' AND seq = 3",
        "UPDATE ledger_entries SET seq = 3 WHERE tenant_id = 'acme' AND seq = 6",
        "UPDATE ledger_entries SET seq = 6 WHERE tenant_id = 'acme' AND seq = 99",
    )
    found = history.found()
    assert {(RecordFault.REORDERED, "acme", 3), (RecordFault.REORDERED, "acme", 6)} < found
    assert not {fault for fault, _, _ in found} & {RecordFault.EDITED, RecordFault.MISSING}


@pytest.mark.parametrize("theirs", [3, 5])
def test_entries_swapped_between_two_tenants_are_named(history: World, theirs: int) -> None:
    history.attacker.tamper(
        "UPDATE ledger_entries SET tenant_id = 'nobody' WHERE tenant_id = 'acme' AND seq = 3",
        f"UPDATE ledger_entries SET tenant_id = 'acme', seq = 3 WHERE tenant_id = 'zeta' AND seq = {theirs}",
        f"UPDATE ledger_entries SET tenant_id = 'zeta', seq = {theirs} WHERE tenant_id = 'nobody'",
    )
    found = history.found()
    assert {(RecordFault.FOREIGN, "acme", 3), (RecordFault.FOREIGN, "zeta", theirs)} < found
    assert RecordFault.EDITED not in {fault for fault, _, _ in found}


def test_whole_chains_exchanged_between_two_tenants_are_named(history: World) -> None:
    history.attacker.drop_guards()
    for table in ("ledger_entries", "ledger_heads"):
        history.attacker.run(f"UPDATE {table} SET tenant_id = 'nobody' WHERE tenant_id = 'acme'")
        history.attacker.run(f"UPDATE {table} SET tenant_id = 'acme' WHERE tenant_id = 'zeta'")
        history.attacker.run(f"UPDATE {table} SET tenant_id = 'zeta' WHERE tenant_id = 'nobody'")
    history.attacker.restore_guards()
    found = history.found()
    assert {(RecordFault.FOREIGN, "acme", seq) for seq in range(1, 6)} < found
    assert {(RecordFault.FOREIGN, "zeta", seq) for seq in range(1, 6)} < found


def test_a_second_entry_at_the_same_place_is_named(history: World) -> None:
    """The primary key forbids it, so the attacker takes that off first."""
    attacker = history.attacker
    attacker.drop_guards()
    if attacker.dialect == "sqlite":
        attacker.run("CREATE TABLE copied AS SELECT * FROM ledger_entries")
        attacker.run("DROP TABLE ledger_entries")
        attacker.run("ALTER TABLE copied RENAME TO ledger_entries")
    else:
        attacker.run("ALTER TABLE ledger_entries DROP CONSTRAINT ledger_entries_pkey")
    rival = attacker.entry("acme", 4)._replace(payload='{"number":40}')
    rival = rival._replace(hash=rival.expected_hash())
    attacker.insert_entry(rival)
    attacker.restore_guards()
    assert (RecordFault.FORKED, "acme", 4) in history.found()


def test_a_clock_turned_back_is_named_even_when_the_key_signed_it(history: World) -> None:
    """Whoever holds the key and writes past Remit can forge anything but the order of time."""
    last = history.attacker.entry("acme", 8)
    forged = last._replace(seq=9, prev_hash=last.hash, created_at="2025-12-31T00:00:00.000000Z")
    forged = forged._replace(hash=forged.expected_hash())
    head = sign_head(history.signer, "acme", 9, forged.hash, forged.created_at)
    history.attacker.insert_entry(forged)
    history.attacker.insert_head(head)
    assert history.found() == {(RecordFault.CLOCK_REVERSED, "acme", 9)}


def test_text_that_is_no_text_is_named(history: World) -> None:
    if history.attacker.dialect != "sqlite":  # PostgreSQL itself refuses to store it
        with pytest.raises(Exception, match="invalid byte sequence"):
            history.attacker.tamper("UPDATE ledger_entries SET payload = convert_from('\\xff', 'UTF8') WHERE seq = 4")
        return
    history.attacker.tamper(
        "UPDATE ledger_entries SET payload = CAST(x'7b22ff227d' AS TEXT) WHERE tenant_id = 'acme' AND seq = 4"
    )
    assert history.found() == {(RecordFault.EDITED, "acme", 4)}


def test_a_hundred_edits_are_all_named(world: World) -> None:
    world.append("acme", 100)
    world.attacker.tamper("UPDATE ledger_entries SET actor = 'mallory'")
    assert world.found() == {(RecordFault.EDITED, "acme", seq) for seq in range(1, 101)}


def test_the_tests_above_depend_on_the_content_check(history: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the check seeded away, the same edit goes unnoticed."""
    history.attacker.tamper("UPDATE ledger_entries SET actor = 'mallory' WHERE tenant_id = 'acme' AND seq = 4")
    assert history.found() == {(RecordFault.EDITED, "acme", 4)}
    monkeypatch.setattr(Entry, "is_intact", lambda _: True)
    assert history.found() == set()

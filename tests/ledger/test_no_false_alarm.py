"""A history that nobody touched verifies clean, however odd it is. An alarm that cries wolf is soon switched off."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from remit.crypto.keyring import rotate_key
from remit.ledger.anchor_file import BLANK
from remit.ledger.entry import NewEntry
from remit.ledger.findings import RecordFault
from remit.ledger.writer import MAX_PAYLOAD, Batch
from tests.support.store_fixtures import World

ODD_TEXTS = [
    '"}],"kind":"approved"}',
    '\n{"kind":"approved","seq":99}\n',
    "\0\x1b[31m\r\n\t\x7f\u2028\u202e",
    "é\U0001f600\ufeff\U000e0041 ﷽",
    "'; DROP TABLE ledger_entries; --",
    "%s ? {} \\u0000 \\",
]


def test_an_empty_ledger(world: World) -> None:
    verdict = world.verify()
    assert verdict.holds
    assert (verdict.entries, verdict.heads, verdict.tenants, verdict.anchored) == (0, 0, 0, 0)


def test_many_tenants_in_one_transaction_and_in_many(world: World) -> None:
    names = [f"tenant-{number:02}" for number in range(30)]

    def all_of_them(batch: Batch) -> None:
        for name in names:
            batch.append(NewEntry(name, "test.event", "corr", {"name": name}))
            batch.append(NewEntry(name, "test.event", "corr", {"name": name}))

    world.ledger.transact(all_of_them)
    world.append("tenant-07", 5)
    verdict = world.verify()
    assert verdict.findings == []
    assert (verdict.entries, verdict.heads, verdict.tenants, verdict.anchored) == (65, 35, 30, 30)


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_odd_text_in_payloads_is_kept_to_the_letter(world: World, text: str) -> None:
    entry = world.ledger.append(NewEntry("acme", "test.event", "corr", {text: text, "list": [text, {"deep": text}]}))
    assert json.loads(world.attacker.entry("acme", 1).payload) == {text: text, "list": [text, {"deep": text}]}
    assert world.attacker.entry("acme", 1) == entry
    assert world.verify().holds


@pytest.mark.parametrize("name", ["日本", "a b", "é", "z" * 200, "O'Brien", "{}", "%s", "..", "a/b", "\U0001f600"])
def test_odd_tenants_and_ids_are_kept_apart(world: World, name: str) -> None:
    world.ledger.append(NewEntry(name, "test.event", name, {}, task_id=name, capability_id=name, actor=name))
    world.append("acme", 1)
    verdict = world.verify()
    assert verdict.findings == []
    assert (verdict.tenants, verdict.anchored) == (2, 2)


def test_a_payload_of_the_largest_size(world: World) -> None:
    room = MAX_PAYLOAD - len('{"text":""}')
    world.ledger.append(NewEntry("acme", "test.event", "corr", {"text": "x" * room}))
    world.append("acme", 1)
    assert world.verify().holds


def test_keys_rotated_along_the_way(world: World) -> None:
    for _ in range(3):
        world.append("acme", 2)
        rotate_key(world.keys, "audit", world.clock)
    assert world.verify().holds, "the last entries are signed by a key retired since"
    world.append("acme", 1)
    verdict = world.verify()
    assert verdict.findings == []
    assert len(list(world.keyring)) == 7, "four roles, and three retired audit keys"


def test_a_revoked_key_is_no_alarm_once_a_good_one_has_signed(world: World) -> None:
    world.append("acme", 3)
    rotate_key(world.keys, "audit", world.clock, revoke=True)
    assert world.found() == {(RecordFault.HEAD_UNKNOWN_KEY, "acme", 3)}, "nothing else vouches for these entries now"
    world.append("acme", 1)
    assert world.found() == set()


def test_a_clock_set_back_an_hour(world: World) -> None:
    first = world.append("acme", 2)[-1]
    world.clock.now -= timedelta(hours=1)
    second = world.append("acme", 2)[-1]
    assert second.created_at == first.created_at, "time stands still rather than running back"
    assert world.verify().holds


def test_a_failed_transaction_leaves_nothing_to_report(world: World) -> None:
    world.append("acme", 1)

    def work(batch: Batch) -> None:
        batch.append(NewEntry("acme", "test.event", "corr", {}))
        batch.append(NewEntry("new", "test.event", "corr", {}))
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        world.ledger.transact(work)
    verdict = world.verify()
    assert verdict.findings == []
    assert (verdict.entries, verdict.tenants) == (1, 1)


def test_an_anchor_made_for_a_commit_that_never_came(world: World) -> None:
    """What a crash between the two leaves behind."""
    world.append("acme", 1)
    world.anchors.prepare("new")
    assert Path(world.anchors.where("new")).read_bytes() == BLANK
    assert world.verify().holds


def test_one_tenant_can_be_verified_alone(world: World) -> None:
    world.append("acme", 3)
    world.append("zeta", 2)
    world.attacker.tamper("UPDATE ledger_entries SET actor = 'mallory' WHERE tenant_id = 'zeta'")
    from_acme = {one.tenant_id for one in world.verify_tenant("acme").findings}
    assert from_acme == set()
    assert world.verify_tenant("zeta").findings != []

"""A clock that was ahead: what is noticed, what a person can accept, and what stays as it is recorded.

The clock is injected. `AHEAD` is as far as it was ahead in the case that this was made for.
"""

import io
import json
import logging
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, UsageError
from remit.core.ids import parse_time, render_time
from remit.ledger import clock_watch
from remit.ledger.bundle import verify_bundle, write_bundle
from remit.ledger.clock import ABOUT_CLOCK, ACCEPTED, JUMPED, clock_entries
from remit.ledger.clock_acceptance import accept_clock, chain_clocks, require_server_agrees
from remit.ledger.clock_watch import ClockWatch
from remit.ledger.entry import Entry, NewEntry
from remit.ledger.findings import RecordFault
from remit.ledger.heads import Anchors, sign_head
from remit.ledger.key_events import rotate_and_record
from remit.ledger.search import SearchFilter, find_entries, first_seq_since, last_seq_before
from remit.ledger.writer import Batch, Ledger
from tests.support.store_fixtures import Ticking, World

AHEAD = timedelta(days=366)
ADA = ("os:ada", "os:ada (Ada)")


def write_ahead(world: World, *tenants: str, by: timedelta = AHEAD) -> datetime:
    """One entry of each while the clock is ahead; the right time."""
    right = world.clock.now
    world.clock.now += by
    for tenant in tenants:
        world.append(tenant, 1)
    world.clock.now = right
    return right


def accept(world: World) -> list[Entry]:
    return accept_clock(world.ledger, *ADA, world.clock.now)


def notices(world: World, tenant: str) -> list[tuple[str, str]]:
    with world.store.reading() as connection:
        return [(one.kind, str(one.payload.get("found", ""))) for one in clock_entries(connection, tenant)]


def entries_of(world: World, tenant: str) -> list[Entry]:
    query = "SELECT seq FROM ledger_entries WHERE tenant_id = ? ORDER BY seq"
    return [world.attacker.entry(tenant, seq) for (seq,) in world.attacker.run(query, (tenant,))]


def test_after_a_person_accepted_the_clock_the_chain_goes_on_from_what_it_shows(world: World) -> None:
    world.append("acme", 2)
    right = write_ahead(world, "acme")
    (stuck,) = world.append("acme", 1)
    assert parse_time(stuck.created_at) >= right + AHEAD, "until then the chain stands still"

    (entry,) = accept(world)
    assert (entry.kind, entry.correlation_id, entry.actor) == (ACCEPTED, ABOUT_CLOCK, "os:ada")
    told = json.loads(entry.payload)
    assert told["newest_at"] == stuck.created_at
    assert told["accepted_at"] == entry.created_at
    assert told["person"] == "os:ada (Ada)"

    (after,) = world.append("acme", 1)
    assert right < parse_time(after.created_at) < right + timedelta(minutes=1)
    assert world.verify().findings == []


def test_a_new_process_and_another_host_go_by_the_acceptance(world: World) -> None:
    write_ahead(world, "acme")
    other = Ledger(world.store, lambda: world.signer, lambda: world.keyring, Anchors(world.anchor_folder), world.clock)
    other.append(NewEntry("acme", "test.event", "before", {}))  # it has seen the chain in the future
    accept(world)
    for ledger in (other, world.reopen()):
        written = ledger.append(NewEntry("acme", "test.event", "after", {}))
        assert parse_time(written.created_at) < world.clock.now + timedelta(minutes=1)
    other.close()
    assert world.verify().findings == []


def test_a_second_jump_can_be_accepted_too(world: World) -> None:
    world.append("acme", 1)
    for _ in range(2):
        write_ahead(world, "acme")
        assert len(accept(world)) == 1
        assert accept(world) == [], "once is enough"
    world.append("acme", 1)
    assert [kind for kind, _ in notices(world, "acme")].count(ACCEPTED) == 2
    assert world.verify().findings == []


def test_only_the_chains_that_are_ahead_get_an_entry_and_all_of_them_in_one_transaction(world: World) -> None:
    world.append("calm", 1)
    write_ahead(world, "acme", "zeta")
    before = world.ledger.transactions
    assert sorted(entry.tenant_id for entry in accept(world)) == ["acme", "zeta"]
    assert world.ledger.transactions == before + 1


def test_nothing_but_an_acceptance_may_go_back_in_time(world: World) -> None:
    """Whoever has the audit key, and not a person's word, is found; so is an acceptance of another time."""
    world.append("acme", 1)
    write_ahead(world, "acme")
    (entry,) = accept(world)
    for changed in (
        entry._replace(kind="test.event"),
        entry._replace(payload=entry.payload.replace(json.loads(entry.payload)["newest_at"], "2026-05-05T05:05:05Z")),
    ):
        forged = changed._replace(hash=changed.expected_hash())
        head = sign_head(world.signer, "acme", forged.seq, forged.hash, forged.created_at)
        world.attacker.tamper(
            ("DELETE FROM ledger_entries WHERE tenant_id = ? AND seq = ?", ("acme", forged.seq)),
            ("DELETE FROM ledger_heads WHERE tenant_id = ? AND seq = ?", ("acme", forged.seq)),
        )
        world.attacker.insert_entry(forged)
        world.attacker.insert_head(head)
        found = {(one.fault, one.seq) for one in world.verify().findings}
        assert (RecordFault.CLOCK_REVERSED, forged.seq) in found


@pytest.mark.parametrize("kind", [ACCEPTED, JUMPED])
def test_no_caller_can_write_an_entry_about_the_clock(world: World, kind: str) -> None:
    with pytest.raises(UsageError, match="written by Remit alone"):
        world.ledger.append(NewEntry("acme", kind, ABOUT_CLOCK, {}))


def test_a_clock_that_was_set_while_the_person_was_asked_is_not_accepted(world: World) -> None:
    write_ahead(world, "acme")
    shown = world.clock.now
    world.clock.now -= timedelta(days=2)
    with pytest.raises(RefusedError, match="when you were asked") as caught:
        accept_clock(world.ledger, *ADA, shown)
    assert caught.value.reason is Reason.EXPIRED
    world.clock.now = shown.replace(year=1970)
    with pytest.raises(RefusedError, match="cannot be right"):
        accept(world)
    assert notices(world, "acme") == []


def test_a_bundle_with_an_acceptance_verifies_whole_and_in_part(world: World) -> None:
    world.append("acme", 3)
    write_ahead(world, "acme")
    accept(world)
    world.append("acme", 3)
    for correlation in (None, "corr-1"):
        out = io.BytesIO()
        write_bundle(world.store, out, "acme", world.clock, correlation_id=correlation)
        out.seek(0)
        assert verify_bundle(out, world.keyring, source="the bundle").findings == []


def test_the_audit_key_can_be_rotated_after_an_acceptance(world: World) -> None:
    world.append("acme", 1)
    write_ahead(world, "acme")
    accept(world)
    rotate_and_record(world.ledger, world.keys, "audit", revoke=False)
    world.reopen()
    world.append("acme", 2)
    assert world.verify().findings == []


def test_times_are_found_on_both_sides_of_an_acceptance(world: World) -> None:
    """Against a plain walk through the chain, at every time that occurs in it."""
    for _ in range(3):
        world.append("acme", 4)
        world.clock.now += timedelta(hours=5)
        write_ahead(world, "acme", by=timedelta(days=3))
        accept(world)
        world.clock.now += timedelta(hours=1)
    chain = entries_of(world, "acme")
    with world.store.reading() as connection:
        for at in {entry.created_at for entry in chain}:
            since = [entry.seq for entry in chain if entry.created_at >= at]
            before = [entry.seq for entry in chain if entry.created_at < at]
            assert first_seq_since(connection, "acme", at) == min(since)
            assert last_seq_before(connection, "acme", at) == max(before, default=0)
            assert _found(connection, SearchFilter(since=at)) == since
            assert _found(connection, SearchFilter(until=at)) == before
        latest = max(entry.created_at for entry in chain)
        assert first_seq_since(connection, "acme", latest + "x") == len(chain) + 1


def _found(connection: Any, wanted: SearchFilter) -> list[int]:
    return sorted(entry.seq for entry in find_entries(connection, "acme", wanted, None, 1_000).entries)


# --- noticing --------------------------------------------------------------------------------------------------------


def test_a_clock_behind_its_chain_is_recorded_once_and_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    write_ahead(world, "acme")
    with caplog.at_level(logging.WARNING, "remit.ledger"):
        world.append("acme", 3)
    assert notices(world, "acme") == [(JUMPED, "behind_ledger")]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "the clock was behind the ledger" in caplog.text
    world.reopen()
    world.append("acme", 2)
    assert len(notices(world, "acme")) == 1, "not with every process"
    with world.store.reading() as connection:
        (chain,) = chain_clocks(connection, world.clock.now)
    assert timedelta(days=365) < chain.behind <= AHEAD
    assert world.verify().findings == []


def test_hosts_whose_clocks_differ_a_little_leave_no_trace(world: World) -> None:
    write_ahead(world, "acme", by=timedelta(seconds=30))
    world.append("acme", 2)
    assert notices(world, "acme") == []


def test_a_notice_is_undone_with_the_work_that_it_came_with(world: World) -> None:
    write_ahead(world, "acme")

    def work(batch: Batch) -> None:
        batch.append(NewEntry("acme", "test.event", "corr", {}))
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        world.ledger.transact(work)
    assert notices(world, "acme") == []
    world.append("acme", 1)
    assert notices(world, "acme") == [(JUMPED, "behind_ledger")]


class Set(Ticking):
    """A clock that can be set, with a steady companion that cannot."""

    def __init__(self, now: datetime) -> None:
        super().__init__()
        self.now = now
        self.seconds = 1_000.0

    def steady(self) -> float:
        return self.seconds

    def rest(self, span: timedelta) -> None:
        """Time passes, as both say."""
        self.now += span
        self.seconds += span.total_seconds()


def watched(world: World, clock: Set, file: Path) -> Ledger:
    world.ledger.close()
    keys = (lambda: world.signer, lambda: world.keyring, Anchors(world.anchor_folder))
    world.ledger = Ledger(world.store, *keys, clock, ClockWatch.of(clock, file))
    return world.ledger


def test_a_jump_ahead_is_noticed_with_the_first_entry_and_idleness_is_none(world: World, tmp_path: Path) -> None:
    clock, file = Set(world.clock.now), tmp_path / "clock.json"
    watched(world, clock, file)
    world.append("acme", 1)
    clock.rest(AHEAD)
    world.append("acme", 1)
    assert notices(world, "acme") == [], "a year without work is no jump"
    clock.now += AHEAD
    world.append("acme", 3)
    assert notices(world, "acme") == [(JUMPED, "jumped_ahead")]
    (told,) = (entry for entry in entries_of(world, "acme") if entry.kind == JUMPED)
    assert json.loads(told.payload)["seconds"] == pytest.approx(AHEAD.total_seconds(), abs=5)
    with world.store.reading() as connection:
        (chain,) = chain_clocks(connection, clock.now)
    assert chain.can_be_accepted, "a person may say that it is right"
    assert [entry.kind for entry in accept_clock(world.ledger, *ADA, clock.now)] == [ACCEPTED]
    assert accept_clock(world.ledger, *ADA, clock.now) == []
    assert world.verify().findings == []


@pytest.mark.parametrize("by", [AHEAD, -timedelta(minutes=10)])
def test_a_jump_between_two_processes_of_one_boot_is_noticed(world: World, tmp_path: Path, by: timedelta) -> None:
    clock, file = Set(world.clock.now), tmp_path / "clock.json"
    watched(world, clock, file)
    world.append("acme", 1)
    assert file.stat().st_mode & 0o777 == 0o600
    clock.rest(timedelta(hours=1))
    clock.now += by
    watched(world, clock, file)
    world.append("acme", 1)
    wanted = "jumped_ahead" if by > timedelta(0) else "jumped_back"
    assert notices(world, "acme") == [(JUMPED, wanted)]


def test_what_comes_after_an_acceptance_is_compared_with_the_accepted_clock(world: World, tmp_path: Path) -> None:
    clock, file = Set(world.clock.now), tmp_path / "clock.json"
    watched(world, clock, file)
    world.append("acme", 1)
    clock.now += AHEAD
    world.append("acme", 1)
    clock.now -= AHEAD
    accept_clock(watched(world, clock, file), *ADA, clock.now)
    watched(world, clock, file)
    world.append("acme", 1)
    assert notices(world, "acme") == [(JUMPED, "jumped_ahead"), (ACCEPTED, "")], "a person has said that it is right"


@pytest.mark.parametrize(
    "spoiled", [b"", b"{", b"[]", b'{"boot": "x"}', b'{"boot": "%s", "shown": "soon", "steady": "x"}', b"\xff" * 600]
)
def test_a_hint_that_cannot_be_read_or_is_of_another_boot_is_left_out_of_account(
    world: World, tmp_path: Path, spoiled: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, file = Set(world.clock.now), tmp_path / "clock.json"
    watched(world, clock, file)
    world.append("acme", 1)
    file.write_bytes(spoiled.replace(b"%s", clock_watch.boot_id().encode()))
    clock.now += AHEAD
    watched(world, clock, file)
    world.append("acme", 1)
    assert notices(world, "acme") == []
    monkeypatch.setattr(clock_watch, "boot_id", lambda: "another")
    clock.now += AHEAD
    watched(world, clock, file)
    world.append("acme", 1)
    assert notices(world, "acme") == []


def test_a_hint_that_cannot_be_written_stops_nothing(world: World, tmp_path: Path) -> None:
    clock, file = Set(world.clock.now), tmp_path / "clock.json"
    file.mkdir()
    watched(world, clock, file)
    world.append("acme", 2)
    assert world.verify().findings == []


@pytest.mark.parametrize("dialect", ["postgresql"])
def test_the_time_of_a_postgresql_server_must_agree(world: World) -> None:
    with world.store.reading() as connection:
        row = connection.one("SELECT clock_timestamp()")
        assert row is not None
        require_server_agrees(connection, row[0])
        with pytest.raises(EnvironmentFailureError, match="the server's clock shows"):
            require_server_agrees(connection, row[0] + timedelta(minutes=5))


def test_the_head_of_an_acceptance_carries_its_own_time(world: World) -> None:
    write_ahead(world, "acme")
    (entry,) = accept(world)
    query = "SELECT signed_at FROM ledger_heads WHERE tenant_id = 'acme' ORDER BY seq DESC LIMIT 1"
    ((signed_at,),) = world.attacker.run(query)
    assert entry.created_at <= signed_at < render_time(world.clock.now + timedelta(minutes=1))

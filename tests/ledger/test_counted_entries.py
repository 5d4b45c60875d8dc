"""Entries beyond a rate are counted: the ledger does not grow with them, and no count is lost."""

import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from remit.ledger.counted_entries import MAX_SINGLES, WINDOW, CountedEntries
from remit.ledger.entry import Entry, NewEntry
from remit.ledger.findings import RecordFault
from remit.store.counted_entries import read_counted
from remit.store.postgresql import PostgresStore
from tests.support.store_fixtures import World

BOT = "agent:bot"


def record(
    world: World, times: int = 1, *, actor: str | None = BOT, operation: str = "propose", reason: str = "r"
) -> None:
    counted = CountedEntries(lambda: world.ledger, "refusals.counted", "acme")
    for number in range(times):
        about = f"sha256:{number}"
        single = NewEntry("acme", "plan.refused", about, {"reason": reason}, actor=actor)
        counted.record(single, operation=operation, reason=reason)


def state_ended(world: World) -> int:
    return CountedEntries(lambda: world.ledger, "refusals.counted", "acme").state_ended()


def entries(world: World, kind: str = "", actor: str | None = BOT) -> list[Entry]:
    query = "SELECT seq FROM ledger_entries WHERE tenant_id = 'acme' ORDER BY seq"
    found = [world.attacker.entry("acme", seq) for (seq,) in world.attacker.run(query)]
    return [each for each in found if each.kind.startswith(kind) and each.actor == actor]


def counts(world: World, actor: str | None = BOT) -> list[dict[str, Any]]:
    return [json.loads(each.payload) for each in entries(world, "refusals.counted", actor)]


def test_the_first_ones_are_single_entries_and_the_others_are_counted(world: World) -> None:
    record(world, MAX_SINGLES)
    assert len(entries(world, "plan.refused")) == MAX_SINGLES
    assert counts(world) == []
    record(world, 1_000)
    assert len(entries(world, "plan.refused")) == MAX_SINGLES
    stated = counts(world)
    assert [each["count"] for each in stated] == [1, 10, 100, 1000]
    last = stated[-1]
    assert last["caller"] == BOT
    assert last["operation"] == "propose"
    assert last["reasons"] == {"r": 1000}
    assert (last["first"], last["last"]) == ("sha256:0", "sha256:999")
    assert last["from"] < last["until"]
    assert len({each["from"] for each in stated}) == 1, "one window: the last count is valid"
    assert world.verify().findings == []


def test_a_flood_does_not_hide_another_reason_another_caller_or_another_operation(world: World) -> None:
    record(world, 200)
    for given in ({"reason": "other"}, {"actor": "agent:other"}, {"actor": None}, {"operation": "apply"}):
        before = len(entries(world, "plan.refused")), len(entries(world, "plan.refused", given.get("actor", BOT)))
        record(world, **given)
        after = len(entries(world, "plan.refused")), len(entries(world, "plan.refused", given.get("actor", BOT)))
        assert after != before, given
    assert world.verify().findings == []


def test_a_window_that_ended_is_stated_by_the_next_one_and_by_request(world: World) -> None:
    record(world, MAX_SINGLES + 15)
    assert state_ended(world) == 0, "it has not ended"
    world.clock.now += WINDOW
    assert state_ended(world) == 1
    assert state_ended(world) == 0
    assert (counts(world)[-1]["count"], counts(world)[-1]["window_ended"]) == (15, True)
    record(world, MAX_SINGLES + 15)  # directly after it: the flood goes on
    assert len(entries(world, "plan.refused")) == MAX_SINGLES
    assert counts(world)[-1]["count"] == 10
    world.clock.now += WINDOW
    record(world)
    assert [each["count"] for each in counts(world)[-2:]] == [35, 1]
    assert world.verify().findings == []


def test_the_next_entry_of_another_caller_states_the_count_too(world: World) -> None:
    record(world, MAX_SINGLES + 15)
    world.clock.now += WINDOW
    record(world, actor="agent:other")
    assert (counts(world)[-1]["count"], counts(world)[-1]["window_ended"]) == (15, True)
    assert world.verify().findings == []


def test_after_a_quiet_window_entries_are_single_again(world: World) -> None:
    record(world, MAX_SINGLES + 5)
    world.clock.now += 2 * WINDOW + timedelta(seconds=1)
    record(world, 3)
    assert len(entries(world, "plan.refused")) == MAX_SINGLES + 3
    assert counts(world)[-1]["count"] == 5
    assert world.verify().findings == []


def test_a_day_of_flood_adds_a_few_entries_for_each_window(world: World) -> None:
    record(world, MAX_SINGLES)
    for _ in range(20):
        record(world, 30)
        world.clock.now += WINDOW
    assert len(entries(world)) <= MAX_SINGLES + 20 * 3
    assert state_ended(world) == 1
    assert sum({each["from"]: each["count"] for each in counts(world)}.values()) == 20 * 30, "all that were counted"


@pytest.mark.parametrize(
    "change",
    [
        "counted = 5",
        "stated = 5",
        "actor = 'agent:victim'",
        "opened_at = '2020-01-01T00:00:00.000000Z'",
        "entry_seq = 1",
    ],
)
def test_a_changed_row_is_found(world: World, change: str) -> None:
    record(world, MAX_SINGLES + 12)
    assert world.verify().findings == []
    with pytest.raises(Exception, match="append-only"):
        world.attacker.run(f"UPDATE counted_entries SET {change}")
    world.attacker.tamper(f"UPDATE counted_entries SET {change}")
    assert world.faults() & {RecordFault.ROW_EDITED, RecordFault.ROW_MISSING}


def test_a_removed_row_is_found(world: World) -> None:
    record(world, MAX_SINGLES + 12)
    with pytest.raises(Exception, match="append-only"):
        world.attacker.run("DELETE FROM counted_entries")
    world.attacker.tamper("DELETE FROM counted_entries")
    assert world.faults() == {RecordFault.ROW_MISSING}


def test_a_row_without_evidence_is_refused(world: World) -> None:
    world.append("acme", 1)
    with pytest.raises(Exception, match="append-only evidence is missing"):
        world.attacker.run(
            "INSERT INTO counted_entries VALUES ('acme', 'refusals.counted', 'agent:x', 'propose', 'a', 'b', 1, 0, 0,"
            " '{}', NULL, NULL, NULL, 1)"
        )


def start(world: World, count: int, fault: str = "") -> "subprocess.Popen[str]":
    schema = world.store.schema if isinstance(world.store, PostgresStore) else ""
    program = Path(__file__).with_name("counter.py")
    command = [sys.executable, str(program), str(world.keys.parent), world.url, schema, str(count)]
    environ = {**os.environ, "PYTHONPATH": str(program.parent.parent.parent / "src"), "REMIT_FAULT": fault}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environ)


@pytest.mark.timeout(120)
def test_processes_that_record_at_once_share_one_window(world: World) -> None:
    world.ledger.close()
    processes = [start(world, 60) for _ in range(4)]
    try:
        for process in processes:
            output, errors = process.communicate("x", timeout=100)
            assert (process.returncode, output.count("recorded")) == (0, 60), errors
    finally:
        for process in processes:
            process.kill()
    assert len(entries(world, "plan.refused")) == MAX_SINGLES
    with world.store.reading() as connection:
        row = read_counted(connection, "acme", "refusals.counted", BOT, "propose")
    assert row is not None
    assert row.counted == 4 * 60 - MAX_SINGLES
    assert [each["count"] for each in counts(world)] == [1, 10, 100]
    assert world.verify().findings == []


@pytest.mark.parametrize("point", ["counted.row_written", "counted.recorded"])
@pytest.mark.parametrize("count", [1, MAX_SINGLES, MAX_SINGLES + 1, MAX_SINGLES + 6])
def test_a_kill_loses_at_most_the_one_that_was_being_recorded(world: World, point: str, count: int) -> None:
    world.ledger.close()
    killed = start(world, count, f"{point}:{count}")
    output, errors = killed.communicate("x", timeout=60)
    assert killed.returncode == -9, errors
    assert output.count("recorded") == count - 1
    durable = count if point == "counted.recorded" else count - 1
    assert len(entries(world, "plan.refused")) == min(durable, MAX_SINGLES)
    assert world.verify().findings == []
    again = start(world, MAX_SINGLES + 10 - durable)
    again.communicate("x", timeout=60)
    assert [each["count"] for each in counts(world)] == [1, 10]
    assert world.verify().findings == []

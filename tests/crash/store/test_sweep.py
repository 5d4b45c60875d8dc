"""The full sweep: every occurrence of every fault point, and every state-changing system call that nobody named.

Slow: `make crash` runs it. Each run of a workload is killed one step later than the last, until one ends unharmed.
"""

import shutil

import pytest

from remit.core.ids import system_clock
from remit.crypto.keyring import create_keys
from remit.store.migrations_runner import migrate
from tests.crash.store.cases import (
    ANCHOR_POINTS,
    APPEND_POINTS,
    BOTH,
    KEY_POINTS,
    MIGRATION_POINTS,
    ROTATION_POINTS,
    MakePlace,
    workload,
)
from tests.crash.store.crash_workspace import Place, what_was_lost
from tests.crash.store.test_kill_keys import what_is_wrong
from tests.support.child_process import ChildExit, Fault, run_child
from tests.support.strace_kill import STATE_CHANGING, run_killed_at, sweep

pytestmark = [pytest.mark.slow_crash, pytest.mark.timeout(3_600)]


def afresh(place: Place, *, tables: bool = True, keys: bool = True) -> None:
    """The state as it was before the last run. SQLite only: a folder can be thrown away."""
    shutil.rmtree(place.folder)
    place.folder.mkdir(mode=0o700)
    if keys:
        create_keys(place.keys, system_clock)
    if tables:
        migrate(place.store(), system_clock)


@pytest.mark.parametrize("work", ["append", "threads"])
@pytest.mark.parametrize("point", [*APPEND_POINTS, *ANCHOR_POINTS])
def test_every_occurrence_of_a_point_while_appending(make_place: MakePlace, work: str, point: str) -> None:
    place = make_place("sqlite")

    def killed_at(when: int) -> ChildExit:
        afresh(place)
        return run_child(workload(place, work, count=3 if work == "threads" else 6), fault=Fault(point, when))

    kills = 0
    for when, ended in sweep(killed_at):
        kills += 1
        assert what_was_lost(place, ended.acknowledged) == [], when
    assert kills >= 1


@pytest.mark.parametrize("database", BOTH)
@pytest.mark.parametrize("point", MIGRATION_POINTS)
def test_every_occurrence_of_a_point_while_migrating(make_place: MakePlace, database: str, point: str) -> None:
    place = make_place(database)
    create_keys(place.keys, system_clock)

    def killed_at(when: int) -> ChildExit:
        if database == "sqlite":
            afresh(place, tables=False)
        else:
            shutil.rmtree(place.folder / "anchors", ignore_errors=True)
            connection = place.store().connect()
            connection.execute("DROP SCHEMA IF EXISTS remit_crash CASCADE")
            connection.close()
        return run_child(workload(place, "migrate", count=1), fault=Fault(point, when))

    kills = 0
    for when, _ in sweep(killed_at):
        kills += 1
        migrate(place.store(), system_clock)
        assert what_was_lost(place, ()) == [], when
    assert kills >= 1


@pytest.mark.parametrize("work, points", [("keys", KEY_POINTS), ("rotate", ROTATION_POINTS)])
def test_every_occurrence_of_a_point_while_keys_change(
    make_place: MakePlace, work: str, points: dict[str, tuple[int, ...]]
) -> None:
    place = make_place("sqlite")
    for point in points:

        def killed_at(when: int, point: str = point) -> ChildExit:
            afresh(place, tables=False, keys=work == "rotate")
            return run_child(workload(place, work, count=2), fault=Fault(point, when))

        for when, _ in sweep(killed_at):
            assert what_is_wrong(place) == [], (point, when)


@pytest.mark.parametrize("call", STATE_CHANGING)
def test_every_system_call_while_appending(make_place: MakePlace, call: str) -> None:
    place = make_place("sqlite")

    def killed_at(when: int) -> ChildExit:
        afresh(place)
        return run_killed_at(workload(place, "append", count=5), call, when)

    for when, ended in sweep(killed_at):
        assert what_was_lost(place, ended.acknowledged) == [], (call, when)


@pytest.mark.parametrize("call", STATE_CHANGING)
def test_every_system_call_while_migrating(make_place: MakePlace, call: str) -> None:
    place = make_place("sqlite")

    def killed_at(when: int) -> ChildExit:
        afresh(place, tables=False)
        return run_killed_at(workload(place, "migrate", count=1), call, when)

    for when, _ in sweep(killed_at):
        migrate(place.store(), system_clock)
        assert what_was_lost(place, ()) == [], (call, when)


@pytest.mark.parametrize("call", STATE_CHANGING)
def test_every_system_call_while_rotating(make_place: MakePlace, call: str) -> None:
    place = make_place("sqlite")

    def killed_at(when: int) -> ChildExit:
        afresh(place, tables=False)
        return run_killed_at(workload(place, "rotate", count=1), call, when)

    for when, _ in sweep(killed_at):
        assert what_is_wrong(place) == [], (call, when)


def test_the_sweep_catches_an_early_acknowledgement(make_place: MakePlace) -> None:
    place = make_place("sqlite")

    def killed_at(when: int) -> ChildExit:
        afresh(place)
        return run_killed_at(workload(place, "append-early", count=2), "pwrite64", when)

    lost = [problem for _, ended in sweep(killed_at) for problem in what_was_lost(place, ended.acknowledged)]
    assert any(problem.startswith("acknowledged and lost") for problem in lost)

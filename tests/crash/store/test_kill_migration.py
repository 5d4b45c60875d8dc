"""kill -9 while the tables are made: each migration is done or not begun, and running it again finishes the rest."""

import pytest

from remit.core.errors import EnvironmentFailureError, Reason
from remit.core.ids import system_clock
from remit.crypto.keyring import create_keys
from remit.store.migrations_runner import migrate, shipped_migrations
from tests.crash.store.cases import BOTH, MIGRATION_POINTS, MakePlace, faults, run
from tests.crash.store.crash_workspace import Place, what_was_lost
from tests.support.child_process import Fault
from tests.support.sampling import some


def tables(place: Place) -> set[str]:
    wanted = {
        "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table'",
        "postgresql": "SELECT table_name FROM information_schema.tables WHERE table_schema = 'remit_crash'",
    }
    store = place.store()
    with store.reading() as connection:
        return {name for (name,) in connection.rows(wanted[store.dialect])}


@pytest.mark.parametrize("database", BOTH)
@pytest.mark.parametrize("fault", some(faults(MIGRATION_POINTS), 2))
def test_a_migration_is_done_or_not_begun(make_place: MakePlace, database: str, fault: Fault) -> None:
    place = make_place(database)
    create_keys(place.keys, system_clock)
    ended = run(place, "migrate", fault, count=1)
    assert ended.acknowledged == ()
    done = fault.point == "migration.committed"
    assert ("ledger_entries" in tables(place)) == done
    assert ("schema_migrations" in tables(place)) == done
    if not done:
        with pytest.raises(EnvironmentFailureError) as outdated:
            place.ledger()
        assert outdated.value.reason is Reason.STORE_OUTDATED

    names = [f"{migration.version:04d}_{migration.name}" for migration in shipped_migrations(place.store().dialect)]
    assert migrate(place.store(), system_clock) == (names[1:] if done else names)
    assert migrate(place.store(), system_clock) == []
    assert what_was_lost(place, ()) == []


@pytest.mark.parametrize("database", BOTH)
@pytest.mark.parametrize("point", some(MIGRATION_POINTS, 2))
def test_an_error_in_a_migration_surfaces_and_the_next_migration_completes(
    make_place: MakePlace, database: str, point: str
) -> None:
    place = make_place(database)
    create_keys(place.keys, system_clock)
    ended = run(place, "migrate", Fault(point, 1, "error"), count=1)
    assert ended.exit_code == 1
    assert "fault injected" in ended.output
    assert ended.acknowledged == ()
    migrate(place.store(), system_clock)
    assert what_was_lost(place, ()) == []


@pytest.mark.parametrize("database", BOTH)
def test_a_kill_during_a_needless_migration_harms_no_entry(make_place: MakePlace, database: str) -> None:
    place = make_place(database)
    place.prepare()
    acknowledged = run(place, "append").acknowledged
    assert len(acknowledged) == 4
    for point in ("migration.begun", "migration.before_commit", "migration.committed"):
        run(place, "migrate", Fault(point), count=1)
        assert what_was_lost(place, acknowledged) == []

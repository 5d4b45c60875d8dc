"""An office with composite simulations, on each store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.goals.composite.step_office import Waits, steps_office
from tests.goals.goal_office import Office
from tests.support.postgres_databases import fresh_database
from tests.support.task_workspace import MovableClock


@pytest.fixture(params=["sqlite", "postgresql"])
def office(request: pytest.FixtureRequest, tmp_path: Path, clock: MovableClock) -> Iterator[Office]:
    if request.param == "sqlite":
        made = steps_office(tmp_path, clock)
        yield made
        made.close()
        return
    with fresh_database(request.getfixturevalue("postgres_admin_url")) as url:
        made = steps_office(tmp_path, clock, url)
        yield made
        made.close()


@pytest.fixture
def desk(tmp_path: Path, clock: MovableClock) -> Iterator[Office]:
    """An office on SQLite: where the store makes no difference."""
    made = steps_office(tmp_path, clock)
    yield made
    made.close()


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch, clock: MovableClock) -> Waits:
    return Waits(monkeypatch, clock)

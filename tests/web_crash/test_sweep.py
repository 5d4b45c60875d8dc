"""kill -9 of the server at each fault point of each request that changes something.

The whole sweep is slow: `make crash-web` runs it. A few points of it are part of every run.
"""

from collections.abc import Iterator

import pytest

from remit.desk.desk import Desk
from tests.kept_zygotes import zygotes_are_kept
from tests.web_crash.place import Place
from tests.web_crash.scenarios import ALL, Scenario
from tests.web_crash.sweep import faults_of, killed_at

__all__ = ["zygotes_are_kept"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    made = Place(tmp_path_factory.mktemp("crash"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def desk(place: Place) -> Iterator[Desk]:
    """To prepare what the server is asked for, without a server."""
    with Desk(place.workspace) as made:
        yield made


@pytest.mark.slow_crash
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__.lower())
def test_killed_at_every_point(place: Place, desk: Desk, kind: type[Scenario]) -> None:
    faults = faults_of(place, desk, kind)
    assert len(faults) > 3, faults
    assert list(killed_at(place, desk, kind, faults)) == faults
    place.require_sound()

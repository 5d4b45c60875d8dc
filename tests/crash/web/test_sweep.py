"""kill -9 of the server at each fault point of each request that changes something.

The whole sweep is slow: `make crash-web` runs it. A few points of it are part of every run.
"""

import time
from collections.abc import Iterator

import pytest

from remit.services.services import Services
from tests.crash.web.crash_workspace import Place
from tests.crash.web.load import all_at_work, callers, leases
from tests.crash.web.scenario import Scenario
from tests.crash.web.scenarios import ALL
from tests.crash.web.sweep import faults_of, killed_at
from tests.support.shared_zygotes import zygotes_are_shared

__all__ = ["zygotes_are_shared"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    made = Place(tmp_path_factory.mktemp("crash"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def desk(place: Place) -> Iterator[Services]:
    """To prepare what the server is asked for, without a server."""
    with Services(place.workspace) as made:
        yield made


@pytest.mark.slow_crash
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__.lower())
def test_killed_at_every_point(place: Place, desk: Services, kind: type[Scenario]) -> None:
    faults = faults_of(place, desk, kind)
    assert len(faults) > 3, faults
    assert list(killed_at(place, desk, kind, faults)) == faults
    place.require_sound()


@pytest.mark.slow_crash
@pytest.mark.timeout(3_600)
def test_killed_at_any_moment_under_load(place: Place, desk: Services) -> None:
    """Sixteen callers propose, approve, apply, undo and run tasks; what they were told is true afterwards."""
    told = 0
    for number in range(12):
        everybody = callers(place)
        work = leases(place, desk, 48)
        with place.served(words=("--no-link",)) as server:
            threads = all_at_work(server, everybody, work)
            time.sleep(0.5 + number * 0.25)
            server.kill()
            for thread in threads:
                thread.join()
        assert server.problems == []
        with place.served(words=("--no-link",)) as server:
            assert [problem for one in everybody for problem in one.check(server)] == []
        told += sum(len(one.told) + len(one.tasks) for one in everybody)
        assert place.unfinished() == 0
        place.require_sound()
    assert told > 100, "too little was done to say anything"

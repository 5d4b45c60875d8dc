"""One workspace and one server for each module."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from tests.web.guarded_server import Place, Served, made_place, serving

GENEROUS = {"limits": {"logins_per_minute": 1_000, "body_bytes": 200_000, "body_seconds": 1, "header_seconds": 1}}


@pytest.fixture(scope="module")
def shared_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with made_place(tmp_path_factory.mktemp("who")) as place:
        yield place


@pytest.fixture
def place(shared_place: Place) -> Iterator[Place]:
    """At the present time again, whatever a test did to the clock."""
    yield shared_place
    shared_place.clock.ahead = timedelta(0)


@pytest.fixture(scope="module")
def shared_server(shared_place: Place) -> Iterator[Served]:
    with serving(shared_place, trees=GENEROUS) as served:
        yield served


@pytest.fixture
def server(shared_server: Served, place: Place) -> Served:
    return shared_server

"""A project in a workspace of its own, made the way a user makes it."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.plan_road.project import Project


class Hand:
    """A clock that a test can move."""

    def __init__(self) -> None:
        self.offset = timedelta(0)

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.offset


@pytest.fixture
def clock() -> Hand:
    return Hand()


@pytest.fixture
def project(tmp_path: Path, clock: Hand) -> Iterator[Project]:
    made = Project(tmp_path, clock)
    yield made
    made.close()

"""A project in a workspace of its own, made the way a user makes it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kept_zygotes import zygotes_are_kept
from tests.plan_road.project import Project
from tests.road.conftest import Hand

__all__ = ["zygotes_are_kept"]


@pytest.fixture
def clock() -> Hand:
    return Hand()


@pytest.fixture
def project(tmp_path: Path, clock: Hand) -> Iterator[Project]:
    made = Project(tmp_path, clock)
    yield made
    made.close()

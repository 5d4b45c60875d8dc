"""A project in a workspace of its own, made the way a user makes it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.plans.project import Project
from tests.support.shared_zygotes import zygotes_are_shared
from tests.support.task_workspace import MovableClock

__all__ = ["zygotes_are_shared"]


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture
def project(tmp_path: Path, clock: MovableClock) -> Iterator[Project]:
    made = Project(tmp_path, clock)
    yield made
    made.close()

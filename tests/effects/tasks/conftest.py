"""The place where effects are tried, on one filesystem and on two."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.effects.tasks.task_folder import Place
from tests.support.small_disks import small_disk


@pytest.fixture(autouse=True)
def no_umask() -> Iterator[None]:
    """As in the sandboxed process."""
    old = os.umask(0)
    yield
    os.umask(old)


def make_place(root: Path, there: Path, stack: ExitStack) -> Place:
    here = root / "here"
    here.mkdir()
    (root / "outside").mkdir()
    return Place(root, here, there, stack)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Both allowed directories on one filesystem."""
    (tmp_path / "there").mkdir()
    with ExitStack() as stack:
        yield make_place(tmp_path, tmp_path / "there", stack)


@pytest.fixture
def two_disks(tmp_path: Path) -> Iterator[Place]:
    """`there` is a filesystem of its own. Needs root."""
    with small_disk(tmp_path / "there", "96m") as there, ExitStack() as stack:
        yield make_place(tmp_path, there, stack)

"""A project with pipelines, made the way a user makes it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.plans.pipelines.pipeline_project import Works
from tests.support.shared_zygotes import zygotes_are_shared

__all__ = ["zygotes_are_shared"]


@pytest.fixture
def open_works(tmp_path: Path) -> Iterator[Callable[..., Works]]:
    """One with settings of its own. Closed at the end."""
    with ExitStack() as stack:

        def make(**settings: Any) -> Works:
            made = Works(tmp_path, **settings)
            stack.callback(made.close)
            return made

        yield make


@pytest.fixture
def works(open_works: Callable[..., Works]) -> Works:
    return open_works()

"""A store with a database of its own, made the way a user makes it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.effects.postgres.conftest import a_database
from tests.plans.postgres.postgres_project import Store
from tests.support.shared_zygotes import zygotes_are_shared

__all__ = ["zygotes_are_shared"]


@pytest.fixture
def open_store(tmp_path: Path, postgres_url: str) -> Iterator[Callable[..., Store]]:
    """One with settings of its own. Closed at the end."""
    with ExitStack() as stack:

        def make(**settings: Any) -> Store:
            made = Store(tmp_path, postgres_url, **settings)
            stack.callback(made.drop_role)
            stack.callback(made.close)
            return made

        yield make


@pytest.fixture
def store(open_store: Callable[..., Store]) -> Store:
    return open_store()


@pytest.fixture
def other_postgres_url(postgres_admin_url: str) -> Iterator[str]:
    with a_database(postgres_admin_url) as url:
        yield url

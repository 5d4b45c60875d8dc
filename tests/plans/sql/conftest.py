"""A shop in a workspace of its own, made the way a user makes it."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.plans.project import REMITS_OWN
from tests.plans.sql.hostile_shop import HostileShop
from tests.plans.sql.shop import Shop
from tests.support.shared_zygotes import zygotes_are_shared

__all__ = ["zygotes_are_shared"]


@pytest.fixture
def open_shop(tmp_path: Path) -> Iterator[Callable[..., Shop]]:
    """One with settings of its own. Closed at the end."""
    with ExitStack() as stack:

        def make(**settings: Any) -> Shop:
            made = Shop(tmp_path, **settings)
            stack.callback(made.close)
            return made

        yield make


@pytest.fixture
def shop(open_shop: Callable[..., Shop]) -> Shop:
    return open_shop()


@pytest.fixture(scope="module")
def kept_shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """One for all cases of a module that leave everything as it was, and say so themselves."""
    made = Shop(tmp_path_factory.mktemp("shop"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostileShop]:
    """For what leaves everything as it was."""
    made = HostileShop(tmp_path_factory.mktemp("hostile"))
    yield made
    made.close()


@pytest.fixture
def swept(shared: HostileShop) -> Iterator[HostileShop]:
    """The same, for tests that lay something strange at its top, which is taken away afterwards."""
    there = {*shared.root.iterdir(), *(shared.root / name for name in REMITS_OWN)}
    yield shared
    for path in set(shared.root.iterdir()) - there:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[HostileShop]:
    made = HostileShop(tmp_path)
    yield made
    made.close()

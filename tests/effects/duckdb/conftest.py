"""Fixtures: one sandbox for all tests, and a new database for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from remit.sandbox.host import SandboxHost
from tests.effects.duckdb.duckdb_sandbox import Shop, make_host


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxHost]:
    with make_host(tmp_path_factory.mktemp("sql")) as made:
        yield made


@pytest.fixture
def shop(tmp_path: Path, host: SandboxHost) -> Shop:
    return Shop(tmp_path, host)

"""One sandbox for all tests of a module, and a database and a role of its own for each."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

from remit.sandbox.host import SandboxHost
from tests.effects.postgres.postgres_sandbox import Shop, make_host


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxHost]:
    with make_host(tmp_path_factory.mktemp("postgres")) as made:
        yield made


@pytest.fixture
def shop(tmp_path: Path, host: SandboxHost, postgres_url: str) -> Iterator[Shop]:
    made = Shop(tmp_path, host, postgres_url)
    yield made
    made.drop_role()


@contextmanager
def a_database(admin: str) -> Iterator[str]:
    name = f"remit_{secrets.token_hex(8)}"
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    yield urlsplit(admin)._replace(path=f"/{name}").geturl()
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture(scope="module")
def module_postgres_url(postgres_admin_url: str) -> Iterator[str]:
    with a_database(postgres_admin_url) as url:
        yield url


@pytest.fixture
def other_postgres_url(postgres_admin_url: str) -> Iterator[str]:
    with a_database(postgres_admin_url) as url:
        yield url

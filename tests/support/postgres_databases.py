"""Empty databases for tests. Making one takes longer than most tests, so one that can be emptied is used again."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

_OTHERS: Final = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()"
_SCHEMAS: Final = r"SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg\_%' AND nspname <> 'information_schema'"
# Whatever a test can leave in a database is a row of one of these, or of a schema, which is dropped.
_CATALOGUES: Final = (
    *("class", "proc", "type", "namespace", "extension", "event_trigger", "publication", "foreign_server"),
    *("largeobject_metadata", "cast", "operator", "language", "default_acl", "collation", "conversion", "policy"),
)
_STATE: Final = (
    "SELECT ARRAY["
    + ", ".join(f"(SELECT count(*) FROM pg_{one})" for one in _CATALOGUES)
    + "], (SELECT datacl::text FROM pg_database WHERE datname = current_database()),"
    " (SELECT nspacl::text || nspowner FROM pg_namespace WHERE nspname = 'public')"
)

_free: dict[str, list[str]] = {}
_fresh_state: dict[str, object] = {}


@contextmanager
def fresh_database(admin_url: str) -> Iterator[str]:
    """The URL of an empty database that nobody else uses meanwhile."""
    free = _free.setdefault(admin_url, [])
    name = free.pop() if free else _make(admin_url)
    try:
        yield _url(admin_url, name)
    finally:
        if _empty(admin_url, name):
            free.append(name)
        else:
            _drop(admin_url, name)


def drop_free_databases() -> None:
    """On somebody's own server nothing must stay behind."""
    for admin_url, names in _free.items():
        while names:
            _drop(admin_url, names.pop())


def _url(admin_url: str, name: str) -> str:
    return urlsplit(admin_url)._replace(path=f"/{name}").geturl()


def _make(admin_url: str) -> str:
    name = f"remit_{secrets.token_hex(8)}"
    with psycopg.connect(admin_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    if admin_url not in _fresh_state:
        with psycopg.connect(_url(admin_url, name), autocommit=True) as connection:
            _recreate_public(connection)
            _fresh_state[admin_url] = connection.execute(_STATE).fetchone()
    return name


def _recreate_public(connection: psycopg.Connection[object]) -> None:
    connection.execute("DROP SCHEMA IF EXISTS public CASCADE")
    connection.execute("CREATE SCHEMA public AUTHORIZATION pg_database_owner")
    connection.execute("GRANT USAGE ON SCHEMA public TO PUBLIC")


def _empty(admin_url: str, name: str) -> bool:
    """Whether it is as it was made."""
    try:
        with psycopg.connect(_url(admin_url, name), autocommit=True) as connection:
            connection.execute(_OTHERS, (name,))
            connection.execute(sql.SQL("ALTER DATABASE {} RESET ALL").format(sql.Identifier(name)))
            for (schema,) in connection.execute(_SCHEMAS).fetchall():
                connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(schema)))
            _recreate_public(connection)
            return connection.execute(_STATE).fetchone() == _fresh_state[admin_url]
    except psycopg.Error:  # a test may have closed it to everybody, or have stopped the server
        return False


def _drop(admin_url: str, name: str) -> None:
    with psycopg.connect(admin_url, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

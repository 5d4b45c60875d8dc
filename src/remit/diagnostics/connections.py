"""Checks of the databases that remit.yaml names for plans.

They inspect files, and parse the URL of a server as plans do. They open no connection, load no database engine, and
show no credential.
"""

import importlib.util
import os
from collections.abc import Callable, Mapping
from typing import Final

from remit.contracts.config.config import DuckdbConnection, PostgresqlConnection, SystemConfig
from remit.core.errors import Reason, RefusedError, RemitError
from remit.diagnostics.check import Check, Topic
from remit.effects.plans.database_files import is_database_file
from remit.fs import openat as beneath
from remit.fs.paths import Located, locate_below
from remit.plans.engines.postgres_servers import find_server

MAX_CONNECTIONS: Final = 50
"""A limit, so that `remit doctor` stays quick."""
_INSTALL: Final = "Install it with: pip install 'remit[sql]'"

RequireIdle = Callable[[Located, bool], None]
"""Raises if another program has the database open. The flag says whether plans would write to it."""


def check_connections(
    config: SystemConfig, root: str, environ: Mapping[str, str], require_idle: RequireIdle
) -> list[Check]:
    """Return one check for each connection, sorted by name."""
    found = []
    for name, connection in sorted(config.connections.items())[:MAX_CONNECTIONS]:
        topic = Topic(f"connection {name}", "plans that run SQL")

        def check(
            topic: Topic = topic, name: str = name, connection: DuckdbConnection | PostgresqlConnection = connection
        ) -> Check:
            if isinstance(connection, PostgresqlConnection):
                return _check_server(topic, name, connection, environ)
            return _check_duckdb(topic, connection, root, require_idle)

        found.append(topic.run(check))
    return found


def _check_duckdb(topic: Topic, connection: DuckdbConnection, root: str, require_idle: RequireIdle) -> Check:
    if importlib.util.find_spec("duckdb") is None:
        return topic.warn("DuckDB is not installed", _INSTALL)
    if connection.path is None:
        return topic.ok("DuckDB, in memory")
    place = locate_below(root, connection.path)
    if (is_one := _is_database(place)) is None:
        if connection.read_only:
            return topic.warn(
                f"{connection.path} does not exist, and this connection is read-only",
                "Create the database with another connection, or correct `path` in remit.yaml.",
            )
        return topic.ok(f"DuckDB, {connection.path}: does not exist yet; a plan can create it")
    if not is_one:
        return topic.fail(
            f"{connection.path} is not a DuckDB database", "Correct `path` in remit.yaml, or move the file."
        )
    try:
        require_idle(place, not connection.read_only)
    except RemitError as problem:
        if problem.reason is not Reason.DATABASE_BUSY:
            raise
        return topic.warn(f"{connection.path}: {problem.what}", problem.next_step)
    return topic.ok(f"DuckDB, {connection.path}{', read-only' if connection.read_only else ''}")


def _is_database(place: Located) -> bool | None:
    """Return whether the file is a DuckDB database, or None if it does not exist.

    Refuses a link, a mount point, and anything that is not a regular file.
    """
    try:
        base = beneath.open_base(place.base)
        try:
            folder = beneath.open_folder(base, place.parents, where=place.path)
        finally:
            os.close(base)
        try:
            file = beneath.open_file(folder, place.name, where=place.path)
        finally:
            os.close(folder)
    except RefusedError as problem:
        if problem.reason is Reason.FILE_MISSING:
            return None
        raise
    try:
        return is_database_file(file)
    finally:
        os.close(file)


def _check_server(topic: Topic, name: str, connection: PostgresqlConnection, environ: Mapping[str, str]) -> Check:
    """Check the URL with the parser of plans, so that a URL is valid here if and only if it is valid for a preview."""
    variable = connection.url_variable
    if variable is not None and not environ.get(variable):
        return topic.warn(
            f"the variable {variable} is not set here",
            f"Set {variable} in the environment of each process that previews or applies plans, such as `remit serve`.",
        )
    try:
        server = find_server(name, connection, environ)
    except RemitError as problem:
        return topic.fail(problem.what, problem.next_step)
    return topic.ok(
        f"PostgreSQL, {server.where}, its URL in {variable or connection.url_file}; no connection was tried"
    )

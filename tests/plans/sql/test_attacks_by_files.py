"""Hostile files around SQL: where a text comes from, where rows go, what is taken for a database."""

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.plans.project import create, replace
from tests.plans.sql.hostile_shop import (
    READ,
    ROWS,
    HostileShop,
    lay_folder,
    lay_hard_link,
    lay_link,
    lay_pipe,
    lay_text,
)
from tests.plans.sql.shop import CONNECTIONS, DATABASE, make_database, sql
from tests.plans.sql.test_changes import UPDATE

# --- the file with the text ------------------------------------------------------------------------------------------

STRANGE_TEXTS: Final[dict[str, Callable[[HostileShop], str]]] = {
    "a link to one inside": lambda hostile: lay_link(hostile, "q.sql", "ok.sql"),
    "a link to one outside": lambda hostile: lay_link(hostile, "q.sql", str(hostile.outside / "secret.sql")),
    "below a link": lambda hostile: lay_link(hostile, "folder", str(hostile.outside)) + "/secret.sql",
    "a hard link to one outside": lambda hostile: lay_hard_link(hostile, "q.sql", hostile.outside / "secret.sql"),
    "a pipe": lambda hostile: lay_pipe(hostile, "q.sql"),
    "a folder": lambda hostile: lay_folder(hostile, "q.sql"),
    "above the root": lambda _: "../outside/secret.sql",
    "above the root, by way of a folder": lambda _: "data/../../outside/secret.sql",
    "absolute": lambda hostile: str(hostile.outside / "secret.sql"),
    "home": lambda _: "~/secret.sql",
    "of a process": lambda _: "/proc/self/environ",
    "among what Remit keeps": lambda _: "agent_outputs/x.sql",
    "the settings": lambda _: "remit.yaml",
    "a NUL in the name": lambda _: "q\0.sql",
    "a secret that is no SQL": lambda _: ".env",
    "the database": lambda _: DATABASE,
    "a NUL in it": lambda hostile: lay_text(hostile, b"SELECT 1\0; DROP TABLE victim"),
    "two bytes a character": lambda hostile: lay_text(hostile, "DROP TABLE victim".encode("utf-16")),
    "half a character": lambda hostile: lay_text(hostile, b"SELECT '\xed\xa0\x80'"),
    "too long": lambda hostile: lay_text(hostile, b"SELECT 1 AS a" + b" " * (5 << 20)),
    "nothing": lambda hostile: lay_text(hostile, b""),
    "only a remark": lambda hostile: lay_text(hostile, b"-- DROP TABLE victim"),
}


@pytest.mark.req("PX-18", "PX-19")
@pytest.mark.parametrize("lay", STRANGE_TEXTS.values(), ids=STRANGE_TEXTS.keys())
def test_a_text_from_a_strange_place_is_not_run(swept: HostileShop, lay: Callable[[HostileShop], str]) -> None:
    swept.write("ok.sql", "SELECT 1 AS a")
    swept.require_refused(sql("a1", query_file=lay(swept)))


@pytest.mark.req("PX-18")
def test_a_mark_of_the_byte_order_hides_nothing(swept: HostileShop) -> None:
    swept.write("q.sql", b"\xef\xbb\xbfSELECT 1 AS a; COPY t TO '/tmp/x.csv'")
    swept.require_refused(sql("a1", query_file="q.sql"))
    swept.write("q.sql", b"\xef\xbb\xbfDELETE FROM victim")
    assert swept.require_harmless(sql("a1", query_file="q.sql")) in {"SUCCESS", "REFUSED"}
    swept.require_refused(sql("a1", query_file="q.sql", connection="reading"))


# --- where rows are saved --------------------------------------------------------------------------------------------

STRANGE_RESULTS: Final[dict[str, Callable[[HostileShop], str]]] = {
    "a protected file": lambda _: "credentials.json",
    "a protected file in other letters": lambda _: "CREDENTIALS.json",
    "the database": lambda _: DATABASE,
    "its log": lambda _: DATABASE + ".wal",
    "version control": lambda _: ".git/x.csv",
    "version control in capitals": lambda _: ".GIT/x.csv",
    "what Remit keeps": lambda _: "agent_outputs/x.csv",
    "what Remit keeps, in capitals": lambda _: "Agent_Outputs/reports/x.json",
    "the logs of Remit": lambda _: "agent_logs/x.csv",
    "a part of Remit's": lambda _: ".remit-0123456789abcdef01234567.part",
    "the settings": lambda _: "remit.yaml",
    "above the root": lambda _: "../outside/pwn.csv",
    "above the root, by way of a folder": lambda _: "data/../../outside/pwn.csv",
    "absolute": lambda hostile: str(hostile.outside / "pwn.csv"),
    "a NUL in the name": lambda _: "x\0.csv",
    "no suffix": lambda _: "results",
    "a suffix that is more": lambda _: "x.csv/",
    "a link to one outside": lambda hostile: lay_link(hostile, "x.csv", str(hostile.outside / "secret.csv")),
    "a link to nothing": lambda hostile: lay_link(hostile, "x.csv", str(hostile.outside / "pwn.csv")),
    "a link to the database": lambda hostile: lay_link(hostile, "x.csv", DATABASE),
    "below a link": lambda hostile: lay_link(hostile, "folder", str(hostile.outside)) + "/secret.csv",
    "a hard link to one outside": lambda hostile: lay_hard_link(hostile, "x.csv", hostile.outside / "secret.csv"),
    "a pipe": lambda hostile: lay_pipe(hostile, "x.csv"),
    "a folder": lambda hostile: lay_folder(hostile, "x.csv"),
    "below a file": lambda _: "results.csv/x.csv",
    "a name that is too long": lambda _: "x" * 300 + ".csv",
}


@pytest.mark.req("PX-18", "PX-19")
@pytest.mark.parametrize("lay", STRANGE_RESULTS.values(), ids=STRANGE_RESULTS.keys())
def test_rows_are_not_saved_to_a_strange_place(swept: HostileShop, lay: Callable[[HostileShop], str]) -> None:
    path = lay(swept)
    swept.require_refused(sql("a1", ROWS, save_results_to=path))
    swept.require_refused(sql("a1", "SELECT 1 AS a", connection="memory", save_results_to=path))


@pytest.mark.req("PX-18", "PX-20")
@pytest.mark.parametrize(
    "path",
    [
        "Results.csv",
        "r\u00e9sults.csv",
        "re\u0301sults.csv",
        ".g\u200cit/x.csv",
        "agent_outputs\u200b/x.csv",
        "-x.csv",
        "\n.csv",
    ],
)
def test_a_twin_of_a_name_is_another_file_or_none(swept: HostileShop, path: str) -> None:
    swept.write("re\u0301sults.csv", "theirs\n")
    assert swept.require_harmless(sql("a1", ROWS, save_results_to=path)) in {"SUCCESS", "REFUSED"}


@pytest.mark.req("PX-18")
def test_a_database_by_the_name_of_results_is_no_results(tmp_path: Path) -> None:
    odd = {"odd": {"type": "duckdb", "path": "data/odd.json"}, "wal": {"type": "duckdb", "path": "data/odd"}}
    hostile = HostileShop(tmp_path, connections={**CONNECTIONS, **odd})
    make_database(hostile.root / "data/odd.json")
    try:
        hostile.require_refused(sql("a1", ROWS, connection="odd", save_results_to="data/odd.json"))
        hostile.require_refused(sql("a1", ROWS, connection="odd", save_results_to="data/./odd.json"))
        hostile.require_refused(
            sql("a1", UPDATE, connection="odd"), sql("a2", ROWS, save_results_to="data/odd.json", depends_on=["a1"])
        )
        hostile.require_refused(
            sql("a1", ROWS, save_results_to="data/odd.json"), sql("a2", UPDATE, connection="odd", depends_on=["a1"])
        )
    finally:
        hostile.close()


@pytest.mark.req("PX-18")
@pytest.mark.parametrize("name", [DATABASE, f"{DATABASE}.wal", "x.csv", "q.sql"])
def test_no_other_action_comes_near_the_files_of_sql(swept: HostileShop, name: str) -> None:
    swept.write("q.sql", UPDATE)
    swept.write("notes.txt")
    both = [sql("a1", query_file="q.sql"), sql("a2", ROWS, save_results_to="x.csv")]
    renamed = {"action_id": "b1", "action_type": "FILE_RENAME", "target": "notes.txt"}
    for other in (
        create("b1", name),
        replace("b1", name),
        {"action_id": "b1", "action_type": "FILE_DELETE", "target": name, "operation": {"type": "delete"}},
        {**renamed, "operation": {"type": "rename", "new_path": name}},
    ):
        swept.require_refused(*both, other)


# --- the database ----------------------------------------------------------------------------------------------------


def _exchange(hostile: HostileShop, content: bytes) -> None:
    hostile.database.write_bytes(content)


def _to_link(hostile: HostileShop) -> None:
    hostile.database.unlink()
    hostile.database.symlink_to(hostile.outside / "theirs.duckdb")


def _to_hard_link(hostile: HostileShop) -> None:
    hostile.database.unlink()
    os.link(hostile.outside / "theirs.duckdb", hostile.database)


def _below_link(hostile: HostileShop) -> None:
    hostile.database.parent.rename(hostile.root / "moved")
    (hostile.outside / "theirs.duckdb").rename(hostile.outside / hostile.database.name)
    hostile.database.parent.symlink_to(hostile.outside)


def _to_pipe(hostile: HostileShop) -> None:
    hostile.database.unlink()
    os.mkfifo(hostile.database)


def _to_folder(hostile: HostileShop) -> None:
    hostile.database.unlink()
    hostile.database.mkdir()


def _to_sqlite(hostile: HostileShop) -> None:
    hostile.database.unlink()
    with sqlite3.connect(hostile.database) as database:
        database.execute("CREATE TABLE orders (id INTEGER, state TEXT)")
    database.close()


def _with_log(hostile: HostileShop, lay: Callable[[Path], object]) -> None:
    lay(hostile.root / f"{DATABASE}.wal")


STRANGE_DATABASES: Final[dict[str, Callable[[HostileShop], None]]] = {
    "a link to one outside": _to_link,
    "a hard link to one outside": _to_hard_link,
    "below a link": _below_link,
    "a pipe": _to_pipe,
    "a folder": _to_folder,
    "another engine's": _to_sqlite,
    "a text": lambda hostile: _exchange(hostile, b"SELECT * FROM orders;\n" * 1_000),
    "zeros": lambda hostile: _exchange(hostile, bytes(1 << 20)),
    "cut off": lambda hostile: _exchange(hostile, hostile.database.read_bytes()[:20_000]),
    "of another version": lambda hostile: _exchange(
        hostile, hostile.database.read_bytes()[:12] + b"\xff\xff" + hostile.database.read_bytes()[14:]
    ),
    "damaged": lambda hostile: _exchange(
        hostile, hostile.database.read_bytes()[:8192] + os.urandom(60_000) + hostile.database.read_bytes()[68_192:]
    ),
    "a log beside it": lambda hostile: _with_log(hostile, lambda log: log.write_bytes(b"x")),
    "a log that is a link": lambda hostile: _with_log(hostile, lambda log: log.symlink_to("/etc/passwd")),
    "a log that is a folder": lambda hostile: _with_log(hostile, Path.mkdir),
    "a log that is a pipe": lambda hostile: _with_log(hostile, os.mkfifo),
}


@pytest.mark.req("PX-18", "PX-19")
@pytest.mark.parametrize("lay", STRANGE_DATABASES.values(), ids=STRANGE_DATABASES.keys())
def test_what_is_no_database_of_the_project_is_not_touched(
    hostile: HostileShop, lay: Callable[[HostileShop], None]
) -> None:
    lay(hostile)
    hostile.require_refused(sql("a1", UPDATE))
    hostile.require_refused(sql("a1", READ))
    hostile.require_refused(sql("a1", ROWS, save_results_to="x.csv"))


@pytest.mark.req("PX-18")
def test_an_empty_file_is_an_empty_database_and_becomes_one_again(hostile: HostileShop) -> None:
    _exchange(hostile, b"")
    assert hostile.require_harmless(sql("a1", "CREATE TABLE made (a INTEGER)")) in {"SUCCESS", "REFUSED"}


@pytest.mark.req("PX-18", "PX-19")
@pytest.mark.parametrize(
    "path", [".git/x.duckdb", "agent_outputs/x.duckdb", "Agent_Outputs/x.duckdb", ".env", "folder/theirs.duckdb"]
)
def test_a_connection_leads_to_no_forbidden_place(tmp_path: Path, path: str) -> None:
    """Whoever wrote the settings: the rules for paths are the same."""
    hostile = HostileShop(tmp_path, connections={"duckdb": {"type": "duckdb", "path": path}})
    (hostile.root / "folder").symlink_to(hostile.outside)
    try:
        hostile.require_refused(sql("a1", "CREATE TABLE made (a INTEGER)"))
    finally:
        hostile.close()


@pytest.mark.req("PX-18")
@pytest.mark.parametrize("connection", ["nowhere", "server", "../data", "duckdb ", "DUCKDB", ":memory:", ""])
def test_a_plan_names_a_connection_of_the_settings_or_none(shared: HostileShop, connection: str) -> None:
    shared.require_refused(sql("a1", READ, connection=connection))


@pytest.mark.req("PX-18")
@pytest.mark.parametrize(
    "target", ["other.duckdb", "data/../../outside/theirs.duckdb", "data/SHOP.duckdb", "/etc/passwd"]
)
def test_a_target_that_is_not_the_connections_is_refused(shared: HostileShop, target: str) -> None:
    shared.require_refused(sql("a1", UPDATE, target=target))

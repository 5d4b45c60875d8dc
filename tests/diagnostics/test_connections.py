"""The databases that remit.yaml names for plans: looked at as files, never opened by an engine, never connected to."""

import importlib.util
import json
from collections.abc import Callable
from typing import Any

import pytest

from remit.diagnostics.check import Check
from tests.diagnostics.sound_workspace import SECRET, SoundWorkspace
from tests.plans.sql.shop import held_open, make_database

pytestmark = pytest.mark.req("PX-18")

DUCKDB: dict[str, Any] = {"type": "duckdb", "path": "data/shop.duckdb"}


@pytest.fixture
def check_config(sound_workspace: SoundWorkspace) -> Callable[..., Check]:
    def with_connection(**connection: Any) -> Check:
        settings = {"version": 1, "connections": {"shop": connection}}
        (sound_workspace.root / "remit.yaml").write_text(json.dumps(settings))
        return sound_workspace.run_checks()["connection shop"]

    (sound_workspace.root / "data").mkdir()
    make_database(
        sound_workspace.root / "data/shop.duckdb", "CREATE TABLE orders (id INTEGER, state VARCHAR, amount INTEGER)"
    )
    return with_connection


def test_a_database_that_no_process_has_open_is_fine(
    check_config: Callable[..., Check], sound_workspace: SoundWorkspace
) -> None:
    before = (sound_workspace.root / "data/shop.duckdb").read_bytes()
    assert (check_config(**DUCKDB).status, check_config(**DUCKDB).found) == ("ok", "DuckDB, data/shop.duckdb")
    assert check_config(**DUCKDB, read_only=True).found == "DuckDB, data/shop.duckdb, read-only"
    assert check_config(type="duckdb").found == "DuckDB, in memory"
    assert (sound_workspace.root / "data/shop.duckdb").read_bytes() == before


def test_one_that_is_not_there_can_be_made_but_not_read(check_config: Callable[..., Check]) -> None:
    for path in ("data/new.duckdb", "nowhere/new.duckdb"):
        assert check_config(type="duckdb", path=path).status == "ok"
        found = check_config(type="duckdb", path=path, read_only=True)
        assert (found.status, "does not exist" in found.found, found.next_step != "") == ("warn", True, True)


def test_a_file_that_is_no_database_fails(check_config: Callable[..., Check], sound_workspace: SoundWorkspace) -> None:
    (sound_workspace.root / "data/notes.txt").write_text("plain text, and longer than a header\n" * 10)
    found = check_config(type="duckdb", path="data/notes.txt")
    assert (found.status, found.found) == ("fail", "data/notes.txt is not a DuckDB database")


def test_a_link_and_a_folder_fail(check_config: Callable[..., Check], sound_workspace: SoundWorkspace) -> None:
    (sound_workspace.root / "link.duckdb").symlink_to(sound_workspace.root / "data/shop.duckdb")
    assert check_config(type="duckdb", path="link.duckdb").status == "fail"
    assert check_config(type="duckdb", path="data").status == "fail"


def test_one_that_is_in_use_is_warned_of(check_config: Callable[..., Check], sound_workspace: SoundWorkspace) -> None:
    database = sound_workspace.root / "data/shop.duckdb"
    with held_open(database):
        found = check_config(**DUCKDB)
        assert (found.status, "another program has it open" in found.found) == ("warn", True)
        assert check_config(**DUCKDB, read_only=True).status == "warn"
    with held_open(database, read_only=True):
        assert check_config(**DUCKDB).status == "warn"
        assert check_config(**DUCKDB, read_only=True).status == "ok"
    (sound_workspace.root / "data/shop.duckdb.wal").write_bytes(b"x")
    assert ".wal" in check_config(**DUCKDB).found


def test_without_duckdb_it_says_how_to_get_it(
    check_config: Callable[..., Check], monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "duckdb" else find(name, *more)
    )
    found = check_config(**DUCKDB)
    assert (found.status, "remit[sql]" in found.next_step) == ("warn", True)


def test_a_url_that_a_preview_refuses_fails(
    check_config: Callable[..., Check], sound_workspace: SoundWorkspace
) -> None:
    file = sound_workspace.root.parent / "url"
    file.touch(mode=0o600)
    for url in (
        "127.0.0.1:54399/shop",
        f"postgresql://somebody:{SECRET}@db.example/shop?sslmode=verify-full",
        f"postgresql://somebody:{SECRET}@evil@db.example/shop",
    ):
        sound_workspace.environ["SHOP_URL"] = url
        file.write_text(url)
        for place in ({"url_variable": "SHOP_URL"}, {"url_file": str(file)}):
            found = check_config(type="postgresql", **place)
            assert (found.status, "is not valid" in found.found) == ("fail", True), url
            assert SECRET not in json.dumps(found.as_json())


def test_of_a_server_only_the_place_of_its_url_is_looked_at(
    check_config: Callable[..., Check], sound_workspace: SoundWorkspace
) -> None:
    url = f"postgresql://somebody:{SECRET}@nowhere.invalid/shop"
    assert check_config(type="postgresql", url_variable="SHOP_URL").status == "warn"
    sound_workspace.environ["SHOP_URL"] = url
    found = check_config(type="postgresql", url_variable="SHOP_URL")
    where = "shop at nowhere.invalid:5432/shop as somebody"
    assert (found.status, found.found) == ("ok", f"PostgreSQL, {where}, its URL in SHOP_URL; no connection was tried")
    file = sound_workspace.root.parent / "url"
    assert check_config(type="postgresql", url_file=str(file)).status == "fail"
    file.write_text(url)
    file.chmod(0o644)
    open_to_all = check_config(type="postgresql", url_file=str(file))
    assert (open_to_all.status, "by other users" in open_to_all.found) == ("fail", True)
    file.chmod(0o600)
    closed = check_config(type="postgresql", url_file=str(file))
    assert closed.status == "ok"
    assert SECRET not in json.dumps([found.as_json(), open_to_all.as_json(), closed.as_json()])

"""A backup that is mounted read-only can be read; nobody has to copy it first, unless its log came along."""

import contextlib
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from remit.core.errors import EnvironmentFailureError
from remit.store.sqlite import SqliteStore
from tests.cli.conftest import Remit
from tests.cli.test_commands import leased
from tests.support.small_disks import only_root

pytestmark = only_root


@contextlib.contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """The folder itself, closed to writing even for root."""
    subprocess.run(["mount", "--bind", str(folder), str(folder)], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", str(folder)], check=True)
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_read_only_state_directory_can_be_verified_shown_and_exported(remit: Remit, tmp_path: Path) -> None:
    leased(remit, tmp_path)
    before = remit("ledger", "show", "--json").out
    with read_only(tmp_path / "state"):
        assert remit("ledger", "verify").out == "holds: 2 entries, 2 signed heads, 1 tenant\n"
        assert remit("ledger", "show", "--json").out == before
        assert remit("ledger", "export", "-o", "bundle.jsonl").code == 0
        refused = remit("task", "lease", "task.json", "-o", "other.json")
    assert refused.code == 1
    assert "Traceback" not in refused.err
    assert not (tmp_path / "project" / "other.json").exists()
    assert remit("ledger", "verify", "bundle.jsonl").code == 0


def test_tampering_is_found_in_a_read_only_copy_too(remit: Remit, tmp_path: Path) -> None:
    leased(remit, tmp_path)
    (path,) = (tmp_path / "state").rglob("ledger.sqlite3")
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("DROP TRIGGER ledger_entries_no_update")
        database.execute("UPDATE ledger_entries SET actor = 'mallory' WHERE seq = 2")
        database.commit()
    with read_only(tmp_path / "state"):
        ran = remit("ledger", "verify", "--json")
    assert ran.code == 1
    assert {finding["fault"] for finding in ran.document["findings"]} == {"edited", "guard_missing"}


def test_a_log_that_came_along_is_never_passed_over(remit: Remit, tmp_path: Path) -> None:
    """What is only in the log would be missing from the answer: better no answer."""
    remit("init")
    (path,) = (tmp_path / "state").rglob("ledger.sqlite3")
    holder = sqlite3.connect(path)  # keeps the log from being folded in
    holder.execute("SELECT count(*) FROM ledger_entries").fetchone()
    leased(remit, tmp_path)
    shutil.copytree(tmp_path / "state", tmp_path / "copy")
    holder.close()
    for shared in (tmp_path / "copy").rglob("*-shm"):
        shared.unlink()
    with read_only(tmp_path / "copy"):
        ran = remit("ledger", "show", REMIT_STATE=str(tmp_path / "copy"))
    assert ran.code == 1
    assert "copy" in ran.err
    assert len(remit("ledger", "show", "--json", REMIT_STATE=str(tmp_path / "copy")).document) == 2


def test_a_database_that_changes_meanwhile_gives_no_answer(remit: Remit, tmp_path: Path) -> None:
    remit("init")
    (path,) = (tmp_path / "state").rglob("ledger.sqlite3")
    view = tmp_path / "view"
    view.mkdir()
    subprocess.run(["mount", "--bind", str(path.parent), str(view)], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", str(view)], check=True)
        reading = SqliteStore(view / path.name).reading()
        assert reading.__enter__().one("SELECT count(*) FROM ledger_entries") == (1,)
        remit("keys", "rotate", "kernel")
        with pytest.raises(EnvironmentFailureError, match="changed while it was read"):
            reading.__exit__(None, None, None)
    finally:
        subprocess.run(["umount", "--lazy", str(view)], check=True)

"""What another program put beside or into the ledger's file, as a person meets it: named, and never "run migrate"."""

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import Remit


@pytest.fixture
def database(remit: Remit) -> Path:
    state = Path(remit("init", "--json").document["state"])
    assert remit("token", "issue", "--sub", "bot", "--cap", "plan.propose", "--json").code == 0
    return state / "ledger.sqlite3"


def plant_view(database: Path) -> None:
    with closing(sqlite3.connect(database)) as session:
        session.execute("ALTER TABLE schema_migrations RENAME TO elsewhere")
        session.execute("CREATE VIEW schema_migrations AS SELECT * FROM elsewhere")
        session.commit()


def plant_log(database: Path) -> None:
    other = database.parent.parent / "other.sqlite3"
    with closing(sqlite3.connect(other)) as session:
        session.execute("PRAGMA journal_mode=WAL")
        session.execute("CREATE TABLE t (x)")
        session.commit()
        shutil.copy(f"{other}-wal", f"{database}-wal")
    os.chmod(f"{database}-wal", 0o600)


@pytest.mark.parametrize(
    "plant, check, named", [(plant_view, "tables", "view schema_migrations"), (plant_log, "store", "does not belong")]
)
def test_every_command_names_a_planted_view_or_log_and_the_ledger_is_not_replaced(
    remit: Remit, database: Path, plant: object, check: str, named: str
) -> None:
    assert callable(plant)
    before = database.read_bytes() if plant is plant_log else b""
    plant(database)
    for words in (("ledger", "verify"), ("migrate",), ("token", "issue", "--sub", "bot", "--cap", "plan.propose")):
        ran = remit(*words)
        assert ran.code == 1, ran
        shown = " ".join((ran.out + ran.err).split())
        assert named in shown, ran
        assert "Run `remit migrate`" not in shown, ran
    doctor = remit("doctor", "--json")
    assert doctor.code == 1
    found = {one["name"]: one for one in doctor.document["workspace"]}
    assert found[check]["status"] == "fail"
    assert named in found[check]["found"]
    if before:
        assert database.read_bytes() == before
        Path(f"{database}-wal").unlink()
        assert remit("ledger", "verify").code == 0


def test_a_database_that_was_emptied_is_not_made_again(remit: Remit, database: Path) -> None:
    database.unlink()
    with closing(sqlite3.connect(database)) as session:
        session.execute("PRAGMA journal_mode=WAL")
    database.chmod(0o600)
    for words in (("migrate",), ("ledger", "verify"), ("doctor",)):
        ran = remit(*words)
        assert ran.code == 1, ran
        shown = " ".join((ran.out + ran.err).split())
        assert "its anchor proves" in shown, ran

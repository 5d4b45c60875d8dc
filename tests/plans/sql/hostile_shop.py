"""A shop with neighbours, plans against it, and strange things laid in its way."""

import hashlib
import os
import stat
from pathlib import Path
from typing import Any, Final

from remit.contracts.plans.outcome import PlanOutcome, PlanRefusal
from remit.core.errors import RefusedError
from tests.effects.duckdb.duckdb_sandbox import TABLES
from tests.plans.project import plan_of
from tests.plans.sql.shop import Shop, make_database

SECRET: Final = "the-secret-of-a-neighbour"
READ: Final = "SELECT count(*) AS n FROM orders"
ROWS: Final = "SELECT id FROM orders ORDER BY id"

World = dict[str, tuple[int, str]]


class HostileShop(Shop):
    """A shop with neighbours: a folder outside with a secret, and a database that is somebody else's."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        super().__init__(folder, **settings)
        self.folder = folder
        self.outside = folder / "outside"
        self.outside.mkdir()
        (self.outside / "secret.csv").write_text(f"word\n{SECRET}\n")
        (self.outside / "secret.sql").write_text(f"SELECT '{SECRET}' AS word FROM nowhere_{SECRET[:10]}\n")
        make_database(self.outside / "theirs.duckdb", f"CREATE TABLE orders AS SELECT 1 AS id, '{SECRET}' AS state")
        make_database(self.database, TABLES)
        for path in (".git/config", ".env", "credentials.json", "pyproject.toml", "results.csv"):
            self.write(path, f"{SECRET} of {path}\n")

    def world(self) -> World:
        """All of the project and of its neighbours, followed through no link. Remit's own is left out."""
        found: World = {}
        for top in (self.root, self.outside):
            for folder, folders, files in os.walk(top):
                if folder == str(self.root):
                    folders[:] = [name for name in folders if name not in {"agent_outputs", "agent_logs"}]
                for name in (*folders, *files):
                    path = os.path.join(folder, name)
                    found[os.path.relpath(path, self.folder)] = _looked_at(path)
        return found

    def attempt(self, plan: bytes, **allowed: Any) -> tuple[str, str]:
        """Previewed, approved and applied, as far as it goes: how it ended, and all that anybody was told."""
        try:
            told = self.workspace.preview(plan).document.canonical().decode()
            envelope = self.approve(plan, **allowed)
        except RefusedError as problem:
            return "REFUSED", str(problem.as_json())
        outcome = self.workspace.apply(envelope.canonical())
        return ended_as(outcome), told + outcome.canonical().decode()

    def require_refused(self, *actions: dict[str, Any], says: str = "", **allowed: Any) -> str:
        """And everything as it was, and nothing of the neighbour told."""
        before = self.world()
        ended, told = self.attempt(plan_of(*actions), **allowed)
        assert ended == "REFUSED", told
        assert says in told
        assert SECRET not in told
        assert "root:" not in told
        assert self.world() == before
        assert self.left_over() == []
        return told

    def require_harmless(self, *actions: dict[str, Any], **allowed: Any) -> str:
        """It may be done; then it is taken back, and everything is as it was."""
        before = self.world()
        ended, told = self.attempt(plan_of(*actions), **allowed)
        assert SECRET not in told
        if ended == "SUCCESS":
            self.workspace.rollback("last")
        assert self.world() == before
        return ended


def ended_as(outcome: PlanOutcome | PlanRefusal) -> str:
    return outcome.status.status if isinstance(outcome, PlanOutcome) else outcome.status


def _looked_at(path: str) -> tuple[int, str]:
    about = os.lstat(path)
    if stat.S_ISLNK(about.st_mode):
        return about.st_mode, os.readlink(path)
    if not stat.S_ISREG(about.st_mode):
        return about.st_mode, ""
    return about.st_mode, hashlib.sha256(Path(path).read_bytes()).hexdigest() + f" {about.st_mtime_ns}"


def lay_link(hostile: HostileShop, name: str, target: str) -> str:
    (hostile.root / name).symlink_to(target)
    return name


def lay_hard_link(hostile: HostileShop, name: str, target: Path) -> str:
    os.link(target, hostile.root / name)
    return name


def lay_pipe(hostile: HostileShop, name: str) -> str:
    os.mkfifo(hostile.root / name)
    return name


def lay_folder(hostile: HostileShop, name: str) -> str:
    (hostile.root / name).mkdir()
    return name


def lay_text(hostile: HostileShop, content: bytes) -> str:
    hostile.write("q.sql", content)
    return "q.sql"

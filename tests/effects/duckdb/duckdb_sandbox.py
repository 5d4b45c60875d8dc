"""A folder with a database, the real sandbox with a build for the engine, and orders for it."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import duckdb

from remit.effects.registry import PathUse
from remit.sandbox.host import SandboxHost
from remit.sandbox.orders import Build, FolderGrant, Order, Quotas

EFFECT: Final = "remit.effects.duckdb.engine:RUN"
UNCHECKED: Final = "tests.effects.duckdb.unchecked:UNCHECKED"
ROOT: Final = Path(__file__).resolve().parents[3]
PACKAGES: Final = str(Path(duckdb.__file__).resolve().parents[1])
MIB: Final = 1 << 20
QUOTAS: Final = Quotas(memory_bytes=900 * MIB, read_bytes=1024 * MIB, write_bytes=256 * MIB, seconds=20.0)
BUILD: Final = Build(engine=True, packages=("duckdb",))

TABLES: Final = """
CREATE TABLE t (a INTEGER, b VARCHAR);
INSERT INTO t VALUES (1, 'one'), (2, 'two');
CREATE TABLE victim (a INTEGER);
INSERT INTO victim VALUES (1);
CREATE TABLE secret (pw VARCHAR);
INSERT INTO secret VALUES ('hunter2');
CREATE VIEW v_over_secret AS SELECT * FROM secret;
CREATE SEQUENCE sq;
CREATE MACRO hidden_nextval() AS nextval('sq');
"""


def make_host(folder: Path, quotas: Quotas = QUOTAS, build: Build = BUILD) -> SandboxHost:
    return SandboxHost(
        [EFFECT, UNCHECKED],
        quotas,
        lock=folder / "hosts" / "this.lock",
        import_paths=[str(ROOT), PACKAGES],
        build=build,
    )


def make_database(path: Path, text: str = TABLES) -> None:
    with duckdb.connect(str(path)) as database:
        database.execute(text)


class Shop:
    """`work` has the copy that statements run on; `outside` is a folder that the sandbox may not use."""

    def __init__(self, root: Path, host: SandboxHost) -> None:
        self.host = host
        self.work = root / "work"
        self.outside = root / "outside"
        for folder in (self.work, self.outside):
            folder.mkdir(parents=True)
        self.database = self.work / "shop.duckdb"
        make_database(self.database)

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.database.read_bytes()).hexdigest()

    def order(self, text: str | None, *, effect: str = EFFECT, seconds: float | None = None, **inputs: Any) -> Order:
        use = PathUse.READ if inputs.get("mode") == "read" else PathUse.MAKE
        base, parents = str(self.work.parent), (self.work.name,)
        places = {"database": FolderGrant(base, parents, self.database.name, use)}
        if inputs.get("results") is not None:
            places["results"] = FolderGrant(base, parents, "results.out", PathUse.MAKE)
        return Order(
            effect=effect,
            call="run",
            task_id="task-1",
            capability_id="SQL_EXECUTE",
            inputs={"text": text, "alias": "shop", **inputs},
            reversible=True,
            part_name=".remit-0.part",
            places=places,
            seconds=seconds,
        )

    def run(self, text: str | None, *, given: Mapping[str, int] | None = None, **inputs: Any) -> dict[str, Any]:
        output = self.host.run(self.order(text, **inputs), given=given or {}).output
        assert output is not None
        return output

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query on the file as it is now."""
        with duckdb.connect(str(self.database), read_only=True) as database:
            return database.execute(query).fetchall()

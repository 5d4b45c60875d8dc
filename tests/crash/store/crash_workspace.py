"""A workspace's state as the crash tests use it: the same for the child that dies and for the parent that looks."""

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from remit.core.errors import RemitError
from remit.core.ids import Clock, system_clock
from remit.crypto.keyring import create_keys, load_keyring, load_signer
from remit.ledger.entry import COLUMNS, Entry, NewEntry
from remit.ledger.findings import VerificationReport
from remit.ledger.heads import Anchors
from remit.ledger.verify.verifier import verify_store
from remit.ledger.writer import Ledger
from remit.store.connection import Store
from remit.store.migrations_runner import migrate
from remit.store.postgresql import PostgresStore
from remit.store.sqlite import SqliteStore

SCHEMA = "remit_crash"


@dataclass(frozen=True, slots=True)
class Place:
    """`url` is that of a PostgreSQL database; without one, SQLite in the folder."""

    folder: Path
    url: str = ""

    @property
    def keys(self) -> Path:
        return self.folder / "keys"

    @property
    def anchors(self) -> Anchors:
        return Anchors(self.folder / "anchors")

    def store(self) -> Store:
        return PostgresStore(self.url, SCHEMA) if self.url else SqliteStore.create(self.folder / "ledger.sqlite3")

    def prepare(self) -> None:
        create_keys(self.keys, system_clock)
        migrate(self.store(), system_clock)

    def ledger(self, clock: Clock = system_clock) -> Ledger:
        signer = load_signer(self.keys, "audit")
        return Ledger(self.store(), lambda: signer, lambda: load_keyring(self.keys), self.anchors, clock)

    def verdict(self) -> VerificationReport:
        return verify_store(self.store(), load_keyring(self.keys), self.anchors)

    def entries(self) -> dict[tuple[str, int], Entry]:
        with self.store().reading() as connection:
            rows = connection.rows(f"SELECT {COLUMNS} FROM ledger_entries")
            found = [Entry(*row) for row in rows]
        return {(entry.tenant_id, entry.seq): entry for entry in found}


def event(number: int, tenants: int = 2) -> NewEntry:
    return NewEntry(
        f"tenant-{number % tenants}", "crash.test", f"run-{number // 3}", {"number": number, "text": "x" * 200}
    )


def what_was_lost(place: Place, acknowledged: tuple[str, ...]) -> list[str]:
    """Every promise that does not hold after a crash; empty if the ledger kept its word and can be written again."""
    there = {(entry.tenant_id, str(entry.seq), entry.hash) for entry in place.entries().values()}
    problems = [f"acknowledged and lost: {word}" for word in acknowledged if tuple(word.split()) not in there]
    problems += [f"found: {finding}" for finding in place.verdict().findings]
    try:
        with closing(place.ledger()) as ledger:
            more = [ledger.append(event(number)) for number in range(4)]
    except RemitError as problem:
        return [*problems, f"cannot be written again: {problem}"]
    now = place.entries()
    problems += [f"written after the crash and lost: {new}" for new in more if now.get((new.tenant_id, new.seq)) != new]
    problems += [f"found after writing again: {finding}" for finding in place.verdict().findings]
    if len(now) != len(there) + len(more):
        problems.append(f"{len(there)} entries and {len(more)} more became {len(now)}")
    return problems

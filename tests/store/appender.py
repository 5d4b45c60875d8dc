"""One of several processes that append to the same chains. Started by test_many_processes.py.

    appender.py FOLDER URL SCHEMA NAME COUNT     (URL: empty for SQLite in the folder)

Four threads append COUNT entries to two tenants, half of them beginning with the one, half with the other. Prints a
line for each acknowledged entry.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

from remit.core.ids import system_clock
from remit.crypto.keyring import load_keyring, load_signer
from remit.ledger.entry import Entry, NewEntry
from remit.ledger.heads import Anchors
from remit.ledger.writer import Batch, Ledger
from remit.store.claims import ClaimAcquired, ClaimKey, claim
from remit.store.connection import Store
from remit.store.postgresql import PostgresStore
from remit.store.sqlite import SqliteStore

THREADS = 4
AT = "2026-01-01T00:00:00Z"
TENANTS = ("acme", "zeta")


def append_both(batch: Batch, name: str, number: int) -> list[Entry]:
    """Claims and chains in an order that differs from process to process: an invitation to a deadlock."""
    order = TENANTS if number % 2 else TENANTS[::-1]
    entries = []
    for tenant_id in order:
        claimed = claim(batch.store, ClaimKey(tenant_id, "test", f"shared-{number % 5}"), "digest", AT)
        kind = "test.intent" if isinstance(claimed, ClaimAcquired) else "test.event"
        entries.append(batch.append(NewEntry(tenant_id, kind, name, {"number": number})))
    return entries


def main() -> None:
    folder, url, schema, name, count = Path(sys.argv[1]), *sys.argv[2:5], int(sys.argv[5])
    store: Store = PostgresStore(url, schema) if url else SqliteStore(folder / "ledger.sqlite3")
    signer = load_signer(folder / "keys", "audit")
    keyring = load_keyring(folder / "keys")
    with closing(Ledger(store, lambda: signer, lambda: keyring, Anchors(folder / "anchors"), system_clock)) as ledger:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.read(1)
        with ThreadPoolExecutor(THREADS) as pool:
            done = pool.map(lambda n: ledger.transact(lambda batch: append_both(batch, name, n)), range(count // 2))
            for entry in (entry for both in done for entry in both):
                sys.stdout.write(f"{entry.tenant_id} {entry.seq} {entry.hash}\n")
    store.close()


if __name__ == "__main__":
    main()

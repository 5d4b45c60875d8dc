"""One of several processes that record the same kind of refusal. Started by test_counted_entries.py.

    counter.py FOLDER URL SCHEMA COUNT     (URL: empty for SQLite in the folder)

Prints a line for each refusal that is durable.
"""

import sys
from contextlib import closing
from pathlib import Path

from remit.core.ids import system_clock
from remit.crypto.keyring import load_keyring, load_signer
from remit.ledger.counted_entries import CountedEntries
from remit.ledger.entry import NewEntry
from remit.ledger.heads import Anchors
from remit.ledger.writer import Ledger
from remit.store.connection import Store
from remit.store.postgresql import PostgresStore
from remit.store.sqlite import SqliteStore


def main() -> None:
    folder, url, schema, count = Path(sys.argv[1]), *sys.argv[2:4], int(sys.argv[4])
    store: Store = PostgresStore(url, schema) if url else SqliteStore(folder / "ledger.sqlite3")
    signer, keyring = load_signer(folder / "keys", "audit"), load_keyring(folder / "keys")
    single = NewEntry("acme", "plan.refused", "sha256:plan", {"reason": "protected"}, actor="agent:bot")
    with closing(Ledger(store, lambda: signer, lambda: keyring, Anchors(folder / "anchors"), system_clock)) as ledger:
        counted = CountedEntries(lambda: ledger, "refusals.counted", "acme")
        sys.stdin.read(1)
        for _ in range(count):
            counted.record(single, operation="propose", reason="protected")
            sys.stdout.write("recorded\n")
            sys.stdout.flush()
    store.close()


if __name__ == "__main__":
    main()

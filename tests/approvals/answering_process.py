"""A person's process that decides: it opens the same store, waits for a line on standard input, and decides.

answering_process.py FOLDER URL SCHEMA {approve,deny} ID
"""

import sys
from pathlib import Path

from remit.approvals.service import ApprovalService
from remit.core.ids import system_clock
from remit.crypto.keyring import load_keyring, load_signer
from remit.fs.change_signal import ChangeSignal
from remit.identity.person import Person
from remit.ledger.heads import Anchors
from remit.ledger.writer import Ledger
from remit.store.connection import Store
from remit.store.postgresql import PostgresStore
from remit.store.sqlite import SqliteStore
from tests.support.child_process import acknowledge

if __name__ == "__main__":
    folder, url, schema, answer, approval_id = Path(sys.argv[1]), *sys.argv[2:6]
    store: Store = PostgresStore(url, schema) if url else SqliteStore(folder / "ledger.sqlite3")
    signer, keys = load_signer(folder / "keys", "audit"), folder / "keys"
    ledger = Ledger(store, lambda: signer, lambda: load_keyring(keys), Anchors(folder / "anchors"), system_clock)
    approvals = ApprovalService(lambda: ledger, ChangeSignal(folder / "approvals.bell"), system_clock)
    approvals.show(approval_id)
    if "--at-once" not in sys.argv:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
    decided = approvals.decide(approval_id, approved=answer == "approve", who=Person("os:bob"))
    if "--at-once" in sys.argv:
        acknowledge(decided.state)
    sys.stdout.write(decided.state)

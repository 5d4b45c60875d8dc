"""What the child processes of the crash tests do. Each acknowledges a thing once it may be relied on.

    workload.py {append,threads,claims,migrate,keys,rotate,accept} FOLDER [--url URL] [--count N] [--bug NAME]

The bugs are planted on purpose: a test that does not notice them would notice nothing.
"""

import argparse
import os
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from remit.core.canonical import digest_bytes
from remit.core.errors import RemitError
from remit.core.faultpoints import reach
from remit.core.ids import render_time, system_clock
from remit.crypto import keyring as keys
from remit.crypto.keyring import create_keys, rotate_key
from remit.crypto.signing import PublicKey
from remit.ledger.clock_acceptance import accept_clock
from remit.ledger.entry import Entry, NewEntry
from remit.ledger.writer import Batch
from remit.store.claims import ClaimAcquired, ClaimKey, claim, finish_claim
from remit.store.migrations_runner import migrate
from tests.crash.store.crash_workspace import Place, event
from tests.support.child_process import acknowledge

CALLERS = 32
NOW = render_time(system_clock())


def promise(entry: Entry) -> None:
    acknowledge(f"{entry.tenant_id} {entry.seq} {entry.hash}")


def complain(when: str, problem: Exception) -> None:
    sys.stdout.write(f"{when}: {type(problem).__name__}: {problem}\n")


def append(place: Place, count: int) -> None:
    with closing(place.ledger()) as ledger:
        for number in range(count):
            try:
                promise(ledger.append(event(number)))
            except (RemitError, OSError) as problem:
                complain(f"error at {number}", problem)


def append_acknowledging_too_early(place: Place, count: int) -> None:
    """Planted bug: the promise is made inside the transaction, before the commit."""
    with closing(place.ledger()) as ledger:
        for number in range(count):

            def work(batch: Batch, number: int = number) -> None:
                promise(batch.append(event(number)))

            ledger.transact(work)


def threads(place: Place, count: int) -> None:
    with closing(place.ledger()) as ledger:

        def call(caller: int) -> None:
            for number in range(count):
                try:
                    promise(ledger.append(event(caller * count + number, tenants=3)))
                except (RemitError, OSError) as problem:
                    complain("error", problem)

        callers = [threading.Thread(target=call, args=(caller,)) for caller in range(CALLERS)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()


def claims(place: Place, count: int) -> None:
    """Claim and record in one transaction, finish and record in the next."""
    with closing(place.ledger()) as ledger:
        for number in range(count):
            key = ClaimKey("tenant-0", "task", f"task-{number}")

            def begin(batch: Batch, key: ClaimKey = key, number: int = number) -> tuple[ClaimAcquired, Entry]:
                won = claim(batch.store, key, f"sha256:{number:064x}", NOW)
                if not isinstance(won, ClaimAcquired):
                    raise TypeError(f"somebody else has {key}")
                return won, batch.append(NewEntry("tenant-0", "task.intent", "corr", {"number": number}))

            won, entry = ledger.transact(begin)
            acknowledge(f"claimed {key.key} {entry.hash}")

            def end(batch: Batch, won: ClaimAcquired = won, number: int = number) -> Entry:
                result = f"result {number}"
                recorded = {"outcome_digest": digest_bytes(result.encode())}
                entry = batch.append(NewEntry("tenant-0", "task.outcome", "corr", recorded))
                finish_claim(batch.store, won, result, NOW, entry.seq)
                return entry

            acknowledge(f"finished {key.key} {ledger.transact(end).hash}")


def migrate_store(place: Place, count: int) -> None:
    for _ in range(count):
        migrate(place.store(), system_clock)
        acknowledge("migrated")


def make_keys(place: Place, count: int) -> None:
    for _ in range(count):
        for key in create_keys(place.keys, system_clock):
            acknowledge(f"{key.role} {key.key_id}")


def rotate(place: Place, count: int) -> None:
    for _ in range(count):
        old, new = rotate_key(place.keys, "audit", system_clock)
        acknowledge(f"{old.key_id} {new.key_id}")


def accept(place: Place, _count: int) -> None:
    """Accept the clock in both chains, which an earlier process left in the future."""
    with closing(place.ledger()) as ledger:
        for entry in accept_clock(ledger, "os:ada", "os:ada", system_clock()):
            promise(entry)


def anchor_before_the_commit() -> None:
    """Planted bug: the anchor speaks of entries that may never be there."""
    honest = Batch.seal

    def seal(batch: Batch) -> None:
        honest(batch)
        batch.committed()

    setattr(Batch, "seal", seal)  # noqa: B010 - plain assignment to a method is no type


def write_in_place(path: Path, data: bytes, *, mode: int = 0o600, replace: bool = True) -> None:
    """Planted bug: the only copy is overwritten, a part at a time."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    os.write(descriptor, data[: len(data) // 2])
    reach("durable.written")
    os.write(descriptor, data[len(data) // 2 :])
    os.close(descriptor)


def destroy_the_old_key_first() -> None:
    """Planted bug: the private key is gone before the keyring names its successor."""
    honest = keys._write_keyring  # noqa: SLF001 - this is the sabotage

    def write_keyring(folder: Path, ring: list[PublicKey]) -> None:
        for key in ring:
            if key.retired_at:
                (folder / key.role / f"{key.key_id}.pem").unlink(missing_ok=True)
        honest(folder, ring)

    setattr(keys, "_write_keyring", write_keyring)  # noqa: B010 - as above


def plant(bug: str) -> None:
    if bug == "anchor-before-commit":
        anchor_before_the_commit()
    elif bug == "write-in-place":
        setattr(keys, "write_durably", write_in_place)  # noqa: B010 - as above
    elif bug == "old-key-first":
        destroy_the_old_key_first()


WORK: dict[str, Callable[[Place, int], None]] = {
    "append": append,
    "append-early": append_acknowledging_too_early,
    "threads": threads,
    "claims": claims,
    "migrate": migrate_store,
    "keys": make_keys,
    "rotate": rotate,
    "accept": accept,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("work", choices=WORK)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--url", default="")
    parser.add_argument("--count", type=int, default=4)
    parser.add_argument("--bug", default="")
    given = parser.parse_args()
    plant(given.bug)
    place = Place(given.folder, given.url)
    WORK[given.work](place, given.count)


if __name__ == "__main__":
    main()

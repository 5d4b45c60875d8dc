"""Verifying and exporting cost as much memory for a long ledger as for a short one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from remit.ledger.entry import NewEntry
from remit.ledger.writer import Batch
from remit.store.sqlite import SqliteStore
from tests.support.store_fixtures import World

MEASURE = """
import json, re, sys
from pathlib import Path
from remit.crypto.keyring import load_keyring
from remit.core.ids import system_clock
from remit.ledger.bundle import verify_bundle, write_bundle
from remit.ledger.heads import Anchors
from remit.ledger.verify.verifier import verify_store
from remit.store.sqlite import SqliteStore

def peak():
    # Not ru_maxrss: that one begins with what the parent process held when it started us.
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])

folder, count = Path(sys.argv[1]), int(sys.argv[2])
store, keyring = SqliteStore(folder / "ledger.sqlite3"), load_keyring(folder / "keys")
figures = [peak()]
verdict = verify_store(store, keyring, Anchors(folder / "anchors"))
assert verdict.holds and verdict.entries == count, verdict
figures.append(peak())
with (folder / "bundle").open("wb") as out:
    write_bundle(store, out, "acme", system_clock)
with (folder / "bundle").open("rb") as stream:
    assert verify_bundle(stream, keyring, source="bundle").holds
figures.append(peak())
print(json.dumps(figures))
"""
LEAK_KIB = 3_000


def grow_to(world: World, count: int) -> None:
    def work(batch: Batch) -> None:
        for number in range(1_000):
            batch.append(NewEntry("acme", "test.event", f"corr-{number}", {"text": "x" * 900}))

    while world.ledger.append(NewEntry("acme", "test.event", "corr", {})).seq < count - 1_000:
        world.ledger.transact(work)
    while world.ledger.append(NewEntry("acme", "test.event", "corr", {})).seq < count:
        pass


def measure(world: World, count: int) -> list[int]:
    assert isinstance(world.store, SqliteStore)
    folder = world.store.path.parent
    source = Path(__file__).resolve().parent.parent.parent / "src"
    command = [sys.executable, "-c", MEASURE, str(folder), str(count)]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    done = subprocess.run(command, capture_output=True, check=False, env=environment, text=True)
    assert done.returncode == 0, done.stderr
    figures: list[int] = json.loads(done.stdout)
    return figures


@pytest.mark.parametrize("dialect", ["sqlite"])
def test_four_times_the_entries_cost_no_more_memory(world: World) -> None:
    """The rows of the longer ledger alone are some 8 MB larger: a verifier that kept them would show."""
    grow_to(world, 2_000)
    world.ledger.close()
    short = measure(world, 2_000)
    grow_to(world, 8_000)
    world.ledger.close()
    long = measure(world, 8_000)
    assert long[1] - long[0] < short[1] - short[0] + LEAK_KIB, "verify_store"
    assert long[2] - long[0] < short[2] - short[0] + LEAK_KIB, "write_bundle and verify_bundle"

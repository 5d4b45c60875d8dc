"""Several processes write to the same chains at once: no gap, no fork, no deadlock, nothing lost."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from remit.store.postgresql import PostgresStore
from tests.support.store_fixtures import World

PROCESSES = 4
ENTRIES_EACH = 100


def start(world: World, name: str) -> "subprocess.Popen[str]":
    schema = world.store.schema if isinstance(world.store, PostgresStore) else ""
    program = Path(__file__).with_name("appender.py")
    command = [sys.executable, str(program), str(world.keys.parent), world.url, schema, name, str(ENTRIES_EACH)]
    source = program.parent.parent.parent / "src"
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(source)},
    )


@pytest.mark.timeout(60)
def test_four_processes_append_to_the_same_chains_at_once(world: World) -> None:
    world.ledger.close()
    processes = [start(world, f"process-{number}") for number in range(PROCESSES)]
    acknowledged: set[tuple[str, ...]] = set()
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("x")
            process.stdin.flush()
        for process in processes:
            output, errors = process.communicate(timeout=50)
            assert process.returncode == 0, errors
            acknowledged |= {tuple(line.split()) for line in output.splitlines()}
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    assert len(acknowledged) == PROCESSES * ENTRIES_EACH
    with world.store.reading() as connection:
        rows = list(connection.rows("SELECT tenant_id, seq, hash, correlation_id FROM ledger_entries"))
    assert {(tenant, str(seq), entry_hash) for tenant, seq, entry_hash, _ in rows} == acknowledged
    assert len({name for *_, name in rows}) == PROCESSES
    verdict = world.verify()
    assert verdict.findings == []
    assert (verdict.entries, verdict.tenants, verdict.anchored) == (PROCESSES * ENTRIES_EACH, 2, 2)

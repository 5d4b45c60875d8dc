"""The entries about refusals that a piece of work adds to the ledger."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from remit.workspace.workspace import Workspace

KINDS = ("request.refused", "plan.refused", "rollback.refused", "task.refused", "refusals.counted")


class RefusalEntry(NamedTuple):
    kind: str
    actor: str | None
    correlation_id: str
    payload: dict[str, Any]


def refusal_entries(workspace: Workspace, after: int = 0) -> list[RefusalEntry]:
    marks = ", ".join("?" * len(KINDS))
    query = f"""SELECT kind, actor, correlation_id, payload FROM ledger_entries
      WHERE tenant_id = 'default' AND seq > ? AND kind IN ({marks}) ORDER BY seq"""
    with workspace.store.reading() as connection:
        return [
            RefusalEntry(row[0], row[1], row[2], json.loads(row[3])) for row in connection.rows(query, (after, *KINDS))
        ]


def last_seq(workspace: Workspace) -> int:
    with workspace.store.reading() as connection:
        row = connection.one("SELECT coalesce(max(seq), 0) FROM ledger_entries WHERE tenant_id = 'default'")
    assert row is not None
    return int(row[0])


@contextmanager
def new_refusals(workspace: Workspace) -> Iterator[list[RefusalEntry]]:
    """Yield a list that has the new entries when the block has ended."""
    before = last_seq(workspace)
    found: list[RefusalEntry] = []
    yield found
    found += refusal_entries(workspace, before)

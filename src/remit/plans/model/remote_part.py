"""A plan's part on a database server, as previews, checkpoints and notes know it. Plain data; no server is asked here.

No row and no text is in any of it: names of tables, counts, and words.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from remit.contracts.plans.rollback import RowsCheckpoint
from remit.contracts.plans.sql_report import MAX_TABLES_TOLD, ChangedTable, SqlTold
from remit.core.errors import EnvironmentFailureError, Reason
from remit.effects.plans.steps import Result
from remit.plans.reports.run_data import RemoteAction
from remit.plans.storage.manifest import rows_id

_LONGEST: Final = 2_000
_PIECE: Final = 8


class RemotePart(NamedTuple):
    """What a plan does on its server, as it was seen in a transaction that was rolled back."""

    connection: str
    """Its name in remit.yaml."""
    server: str
    """Its address, never a password."""
    actions: tuple[RemoteAction, ...]
    """In the order in which they run."""
    bound: str
    """The digest of what the actions found: the approval is for this, and the run must find the same."""
    image_bytes: int = 0
    """What the rows take that are kept for the way back."""

    @property
    def irreversible(self) -> tuple[str, ...]:
        """The ids of actions that cannot be taken back."""
        return tuple(one.action_id for one in self.actions if one.irreversible)

    @property
    def why_irreversible(self) -> str:
        """In words; empty where everything can be taken back."""
        reasons = dict.fromkeys(one.irreversible for one in self.actions if one.irreversible)
        return "; ".join(reasons)[:_LONGEST]

    def results(self, state: str, at: str, reason: str = "") -> tuple[Result, ...]:
        """One for each action, all alike."""
        end: Any = state
        return tuple(Result(one.number, end, at, at, None, reason) for one in self.actions)


class RowBackup(NamedTuple):
    """What a run changed on its server, and what leads back: where the rows are kept, or why there is no way."""

    tables: tuple[tuple[str, int, int, int], ...]
    """Each with how many rows were inserted, updated and deleted."""
    location: str | None = None
    sha256: str | None = None
    size: int | None = None
    irreversible: str | None = None


class Commit(NamedTuple):
    """A transaction that is about to be committed: noted before, so that whoever takes over can ask what became of it.

    `rows` is not there in the rollback of a run.
    """

    connection: str
    transaction: Mapping[str, Any]
    rows: RowBackup | None = None


def rows_checkpoint(part: RemotePart, rows: RowBackup | None, manifest_id: str) -> RowsCheckpoint | None:
    """For the manifest; None if nothing was changed on the server."""
    if rows is None or not (rows.tables or rows.irreversible):
        return None
    return RowsCheckpoint(
        checkpoint_id=rows_id(manifest_id),
        connection=part.connection,
        server=part.server,
        action_ids=tuple(one.action_id for one in part.actions),
        tables=tuple(changed_table(*table) for table in rows.tables[:MAX_TABLES_TOLD]),
        backup_location=rows.location,
        original_hash=rows.sha256,
        original_size=rows.size,
        irreversible=rows.irreversible,
        restore_command="Cannot be restored" if rows.irreversible else "Run: remit rollback",
    )


def changed_table(table: str, inserted: int, updated: int, deleted: int) -> ChangedTable:
    return ChangedTable(table=table, inserted=inserted, updated=updated, deleted=deleted)


# --- in a checkpoint and in a note -----------------------------------------------------------------------------------


def render_remote_part(part: RemotePart | None) -> dict[str, Any] | None:
    if part is None:
        return None
    actions = [
        {
            **one._asdict(),
            "told": None if one.told is None else strip_rows(one.told).tree(),
            "problem": None if one.problem is None else dict(one.problem),
        }
        for one in part.actions
    ]
    return {**part._asdict(), "actions": actions}


def parse_remote_part(tree: Any) -> RemotePart | None:
    """The inverse. KeyError, TypeError or ValueError for anything else."""
    if tree is None:
        return None
    actions = tuple(
        RemoteAction(**{**one, "told": None if one["told"] is None else SqlTold.from_tree(one["told"])})
        for one in tree["actions"]
    )
    return RemotePart(**{**tree, "actions": actions})


def strip_rows(told: SqlTold) -> SqlTold:
    """What may be kept: rows are for whoever looks at a preview."""
    return SqlTold.model_validate({name: getattr(told, name) for name in SqlTold.model_fields})


def note_commit(commit: Commit) -> dict[str, Any]:
    """Before COMMIT is sent."""
    rows = None if commit.rows is None else list(commit.rows)
    return {"commit": [commit.connection, _encode_transaction(commit.transaction), rows]}


def read_commit(notes: Sequence[Mapping[str, Any]]) -> Commit | None:
    """The last one that was noted, unless all was taken back and begun anew since."""
    found = None
    for note in notes:
        match note:
            case {"wave": int()}:
                found = None
            case {"commit": [str(connection), [*transaction], rows]}:
                found = Commit(
                    connection, _decode_transaction(transaction), None if rows is None else _parse_rows(rows)
                )
    return found


def _encode_transaction(transaction: Mapping[str, Any]) -> list[str]:
    """In short pieces: what the ledger holds is masked, and the number of a server may look like that of a card."""
    text = json.dumps(dict(transaction), sort_keys=True).encode().hex()
    return [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]


def _decode_transaction(pieces: Sequence[Any]) -> dict[str, Any]:
    try:
        plain: dict[str, Any] = json.loads(bytes.fromhex("".join(map(str, pieces))))
    except ValueError:
        raise EnvironmentFailureError(Reason.STORE_OUTDATED, "a note of this run cannot be read") from None
    return plain


def _parse_rows(values: Sequence[Any]) -> RowBackup:
    tables, location, sha256, size, irreversible = values
    return RowBackup(
        tuple((table, *map(int, counts)) for table, *counts in tables), location, sha256, size, irreversible
    )

"""The part of a plan on a database server, as previews, checkpoints and notes hold it. Plain data.

It contains no rows and no SQL text, only table names, counts and messages. This module connects to no server.
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

RESTORE_ROWS: Final = (
    "Nothing was changed, and the approval stays valid: apply again when these rows are as they were. Or preview the"
    " plan again with `remit preview` and approve it again."
)
OTHER_TABLES: Final = "the server, the role or a table of this plan is not what it was when the plan was approved"

_LONGEST: Final = 2_000
_PIECE: Final = 8


class RemotePart(NamedTuple):
    """The effect of a plan on its server, as observed before the approval."""

    connection: str
    """The name of the connection in remit.yaml."""
    server: str
    """The address of the server, without a password."""
    actions: tuple[RemoteAction, ...]
    """The actions in the order of execution."""
    bound: str
    """The digest of the observed effect. The approval is bound to it, and the run must find the same."""
    image_bytes: int = 0
    """The size of the before-images of rows."""
    computed: str = "execute"
    """How it was observed: `execute` (run and rolled back), `explain` (planned by the server) or `off` (not at all)."""

    @property
    def irreversible(self) -> tuple[str, ...]:
        """The ids of actions that cannot be rolled back."""
        return tuple(one.action_id for one in self.actions if one.irreversible)

    @property
    def why_irreversible(self) -> str:
        """The reasons why it cannot be rolled back. Empty if it can."""
        reasons = dict.fromkeys(one.irreversible for one in self.actions if one.irreversible)
        return "; ".join(reasons)[:_LONGEST]

    def results(self, state: str, at: str, reason: str = "") -> tuple[Result, ...]:
        """Return one result for each action, all with the same state."""
        end: Any = state
        return tuple(Result(one.number, end, at, at, None, reason) for one in self.actions)


class RowBackup(NamedTuple):
    """The row changes of a run on its server, with the location of the before-images or the reason why there are
    none.
    """

    tables: tuple[tuple[str, int, int, int], ...]
    """Each table with the number of inserted, updated and deleted rows."""
    location: str | None = None
    sha256: str | None = None
    size: int | None = None
    irreversible: str | None = None


class Commit(NamedTuple):
    """A transaction that is about to be committed. It is noted first, so that a recovering process can ask for its
    fate.

    `rows` is None in the rollback of a run.
    """

    connection: str
    transaction: Mapping[str, Any]
    rows: RowBackup | None = None


def rows_checkpoint(part: RemotePart, rows: RowBackup | None, manifest_id: str) -> RowsCheckpoint | None:
    """Return the server's entry in the manifest, or None if nothing was changed on the server."""
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


def render_counts(counts: tuple[int, int, int]) -> str:
    """Render the numbers of inserted, updated and deleted rows."""
    named = zip(counts, ("inserted", "updated", "deleted"), strict=True)
    return ", ".join(f"{number:,} {word}" for number, word in named if number) or "no row"


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
    """Parse the output of `render_remote_part`. Raises KeyError, TypeError or ValueError for anything else."""
    if tree is None:
        return None
    actions = tuple(
        RemoteAction(**{**one, "told": None if one["told"] is None else SqlTold.from_tree(one["told"])})
        for one in tree["actions"]
    )
    return RemotePart(**{**tree, "actions": actions})


def strip_rows(told: SqlTold) -> SqlTold:
    """Return the report without its rows. Rows are shown only in a preview, and are not stored."""
    return SqlTold.model_validate({name: getattr(told, name) for name in SqlTold.model_fields})


def note_commit(commit: Commit) -> dict[str, Any]:
    """Return the note that is recorded before COMMIT is sent."""
    rows = None if commit.rows is None else list(commit.rows)
    return {"commit": [commit.connection, _encode_transaction(commit.transaction), rows]}


def read_commit(notes: Sequence[Mapping[str, Any]]) -> Commit | None:
    """Return the last noted commit, unless the run was undone and started again since."""
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
    """Encode in short pieces. The ledger masks what it stores, and a server's number may look like a card number."""
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

"""What the text of SQL alone shows about its risk and about a rollback, for the agent's preview. Pure.

The text is the agent's own. What statements do to rows, and whether a table can be restored, depends on the database,
so it is unknown here.
"""

from typing import Final

from remit.contracts.config.config import PostgresqlConnection, SystemConfig
from remit.contracts.plans.plan import Action, Plan, SqlAction
from remit.core.errors import RefusedError
from remit.effects.postgres.lexer import tokens_of
from remit.effects.postgres.statements import analyse
from remit.plans.policy.remote_sql import is_remote, server_of

_DESTROYING: Final = frozenset({"DELETE", "DROP", "TRUNCATE"})


def destroys_by_its_text(action: Action) -> bool:
    """Return whether a word of the action's own statements deletes rows, columns or tables."""
    if not isinstance(action, SqlAction) or action.operation.query is None:
        return False
    try:
        return any(token.word in _DESTROYING for token in tokens_of(action.operation.query))
    except RefusedError:
        return False


def irreversible_by_text(plan: Plan, config: SystemConfig) -> tuple[str, ...] | None:
    """Return the actions on a server that certainly cannot be rolled back, or None if the text does not show it.

    A change of the structure can never be rolled back. Whether changed rows can be, depends on their tables.
    """
    found: list[str] = []
    for action in plan.action_plan:
        if not is_remote(action, config):
            continue
        match _changes_structure(action, config):
            case True:
                found.append(action.action_id)
            case None:
                return None
    return tuple(found)


def _changes_structure(action: Action, config: SystemConfig) -> bool | None:
    """Return True if the action changes the structure, False if it only reads, and None if it may change rows."""
    connection = config.connections.get(server_of(action, config) or "")
    if not isinstance(action, SqlAction) or action.operation.query is None:
        return None  # its statements are in files
    try:
        statements = analyse(action.operation.query)
    except RefusedError:
        return None  # it would fail
    if any(one.changes_structure for one in statements):
        return True
    may_write = not isinstance(connection, PostgresqlConnection) or bool(connection.functions)
    return None if may_write or not all(one.is_read for one in statements) else False

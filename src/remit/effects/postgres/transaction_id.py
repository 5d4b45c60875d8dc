"""What became of a transaction is told by its number, so the number must be its own for ever.

A server that dies forgets what it had not written down yet: after it, the number of a transaction that was open could
be given to another one, and what is told of that one would be taken for the first. So before a transaction is committed
its number is made to last: a small transaction of its own is committed on another connection, and all that was written
before it goes to the disk with it.
"""

from typing import Final

from remit.effects.postgres.libpq import PostgresWire, ServerError
from remit.effects.postgres.session import OUR_PATH

_IS_OPEN: Final = """
SELECT 1 FROM pg_stat_activity
WHERE pid = $1 AND backend_xid::text = ($2::numeric % 4294967296)::text AND usename = current_user
"""
_IN_THE_FUTURE: Final = "22023"


def require_durable_commit(wire: PostgresWire, xid: str, backend: int) -> bool:
    """Durable on return. No standby is waited for: it is about this server's own memory.

    Whether the transaction with that number, if there is one, is still open. A server that has died meanwhile has
    forgotten it, and could have given its number to the transaction here.
    """
    wire.do("SELECT pg_catalog.set_config('search_path', $1, false)", OUR_PATH)
    wire.do("SELECT set_config('synchronous_commit', 'local', false)")
    wire.do("BEGIN")
    wire.do("SELECT pg_logical_emit_message(true, 'remit', '')")  # one that had written nothing would not be waited for
    wire.do("COMMIT")
    return not xid or bool(wire.do(_IS_OPEN, backend, xid))


def is_in_the_future(problem: ServerError) -> bool:
    """Whether the server says that it has not given this number to anybody yet: then it committed nothing under it."""
    return problem.state == _IN_THE_FUTURE

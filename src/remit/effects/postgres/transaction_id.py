"""Makes the id of a transaction durable, so that the server can report the outcome of exactly this transaction later.

A server that crashes forgets everything that it had not written to disk. After the crash it could give the id of an
open transaction to another one, and the outcome of that one would be reported instead. So before Remit commits a
transaction, it commits a small separate transaction on another connection. Its commit writes everything before it to
the disk, including the id.
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
    """Make all transaction ids so far durable. Return whether the transaction `xid` is still open.

    The result is true without an `xid`. If the server has crashed meanwhile, it has forgotten the transaction, and
    could have given its id to the small transaction here. The commit waits for no standby, because it is only about
    this server's own disk.
    """
    wire.do("SELECT pg_catalog.set_config('search_path', $1, false)", OUR_PATH)
    wire.do("SELECT set_config('synchronous_commit', 'local', false)")
    wire.do("BEGIN")
    wire.do("SELECT pg_logical_emit_message(true, 'remit', '')")  # an empty transaction would not wait for the disk
    wire.do("COMMIT")
    return not xid or bool(wire.do(_IS_OPEN, backend, xid))


def is_in_the_future(problem: ServerError) -> bool:
    """Return whether the server has not used this id yet. Then it has committed nothing with it."""
    return problem.state == _IN_THE_FUTURE

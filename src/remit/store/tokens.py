"""Rows of capability tokens: issued ones, revoked ones, and the number of actions that each was used for.

The functions take a connection, so that they can run inside the caller's transaction. Their answers are then true until
it commits, because no other process writes meanwhile.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from remit.core.errors import Reason, RefusedError
from remit.store.connection import Connection

REVOKED_KIND: Final = "token.revoked"
_INSERT: Final = """INSERT INTO browser_tokens (tenant_id, jti, sub, kid, issued_at, not_before, expires_at, caps,
  constraints, token_digest, entry_seq) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_REVOKE: Final = """INSERT INTO browser_token_revocations (tenant_id, jti, revoked_at, actor, reason, entry_seq)
  VALUES (?, ?, ?, ?, ?, ?)"""
# Two sources: to hide a revocation, an attacker who removes its row would have to rewrite the ledger too.
_REVOKED: Final = """SELECT revoked_at FROM browser_token_revocations WHERE tenant_id = ? AND jti = ?
  UNION ALL SELECT created_at FROM ledger_entries WHERE tenant_id = ? AND correlation_id = ? AND kind = ? LIMIT 1"""
_REVOKED_AND_NEWEST: Final = f"""SELECT (SELECT revoked_at FROM ({_REVOKED}) r),
  (SELECT created_at FROM ledger_entries WHERE tenant_id = ? ORDER BY seq DESC LIMIT 1)"""
_USED_FOR: Final = "SELECT 1 FROM browser_token_uses WHERE tenant_id = ? AND jti = ? AND action_id = ?"
_USES: Final = "SELECT count(*) FROM browser_token_uses WHERE tenant_id = ? AND jti = ?"
_USE: Final = "INSERT INTO browser_token_uses (tenant_id, jti, action_id, used_at) VALUES (?, ?, ?, ?)"
_LIST: Final = """SELECT t.jti, t.sub, t.kid, t.issued_at, t.not_before, t.expires_at, t.caps, t.constraints,
    t.token_digest, t.entry_seq, r.revoked_at, r.reason,
    (SELECT count(*) FROM browser_token_uses u WHERE u.tenant_id = t.tenant_id AND u.jti = t.jti)
  FROM browser_tokens t
    LEFT JOIN browser_token_revocations r ON r.tenant_id = t.tenant_id AND r.jti = t.jti
  WHERE t.tenant_id = ? ORDER BY t.issued_at DESC, t.jti DESC"""
_FOREIGN: Final = """SELECT r.jti, r.revoked_at, r.reason FROM browser_token_revocations r
  WHERE r.tenant_id = ? AND NOT EXISTS (
    SELECT 1 FROM browser_tokens t WHERE t.tenant_id = r.tenant_id AND t.jti = r.jti)
  ORDER BY r.revoked_at DESC, r.jti DESC"""


class TokenRow(NamedTuple):
    """A token that this workspace issued."""

    jti: str
    sub: str
    kid: str
    issued_at: str
    not_before: str
    expires_at: str
    caps: str
    """A list, as JSON text."""
    constraints: str
    """An object, as JSON text."""
    token_digest: str
    entry_seq: int
    revoked_at: str | None = None
    revoked_why: str | None = None
    uses: int = 0


class ForeignRevocation(NamedTuple):
    """A revocation of a token that this workspace did not issue."""

    jti: str
    revoked_at: str
    reason: str | None


def insert_token(connection: Connection, tenant_id: str, row: TokenRow) -> None:
    connection.execute(_INSERT, (tenant_id, *row[:10]))


def insert_revocation(
    connection: Connection, tenant_id: str, jti: str, at: str, actor: str, reason: str | None, entry_seq: int
) -> None:
    connection.execute(_REVOKE, (tenant_id, jti, at, actor, reason, entry_seq))


def revoked_since(connection: Connection, tenant_id: str, jti: str) -> str | None:
    """Return the time of its revocation. None if it was not revoked."""
    row = connection.one(_REVOKED, (tenant_id, jti, tenant_id, jti, REVOKED_KIND))
    return row[0] if row else None


def require_not_revoked(connection: Connection, tenant_id: str, jti: str) -> None:
    since = revoked_since(connection, tenant_id, jti)
    if since is not None:
        raise _revoked(since)


def newest_time_unless_revoked(connection: Connection, tenant_id: str, jti: str) -> str | None:
    """Return the time of the newest entry of the chain, if there is one. One query, because every request needs it."""
    row = connection.one(_REVOKED_AND_NEWEST, (tenant_id, jti, tenant_id, jti, REVOKED_KIND, tenant_id))
    since, newest = row or (None, None)
    if since is not None:
        raise _revoked(since)
    return newest  # type: ignore[no-any-return]  # a column of text


def _revoked(since: str) -> RefusedError:
    return RefusedError(
        Reason.REVOKED,
        f"the token was revoked at {since}",
        where="token, jti",
        next_step="Ask the owner for a new token: remit token issue --sub AGENT --cap CAPABILITY",
    )


def count_use(
    connection: Connection, tenant_id: str, jti: str, action_id: str, at: str, most: int | None = None
) -> None:
    """Count this action once, however often it starts. Refuse it if the token was already used `most` times.

    Call it in the transaction that records the intent. Then two actions cannot both be the last one.
    """
    if connection.one(_USED_FOR, (tenant_id, jti, action_id)):
        return
    row = connection.one(_USES, (tenant_id, jti)) or (0,)
    if most is not None and row[0] >= most:
        raise RefusedError(
            Reason.CONSTRAINT_VIOLATED,
            f"the token was used for {most:,} actions, which is its limit",
            where="constraints.max_actions",
            next_step="Ask the owner for a new token: remit token issue --sub AGENT --cap CAPABILITY",
        )
    connection.execute(_USE, (tenant_id, jti, action_id, at))


def was_used(connection: Connection, tenant_id: str, jti: str) -> bool:
    row = connection.one(_USES, (tenant_id, jti))
    return row is not None and row != (0,)


def listed_tokens(connection: Connection, tenant_id: str) -> Iterator[TokenRow]:
    for row in connection.rows(_LIST, (tenant_id,)):
        yield TokenRow(*row)


def foreign_revocations(connection: Connection, tenant_id: str) -> Iterator[ForeignRevocation]:
    for row in connection.rows(_FOREIGN, (tenant_id,)):
        yield ForeignRevocation(*row)

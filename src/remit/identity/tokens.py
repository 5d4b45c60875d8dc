"""The capability tokens of one workspace: issued, verified, used and revoked. Also the keys that verify them.

A token is recorded in the ledger before the caller receives it, and so is a revocation. The text of a token is stored
nowhere: anyone who has it can act with it.
"""

import json
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from remit.authority.capability_token import (
    IssuedToken,
    Token,
    TokenRequest,
    VerifiedTokens,
    issue_token,
    require_in_time,
    require_key_valid,
    signed_jti,
)
from remit.contracts.config.browser import Browser
from remit.core.errors import Reason, RefusedError
from remit.core.ids import DEFAULT_TENANT, Clock, parse_time, render_time
from remit.crypto.rsa_key_files import (
    RING_FILE,
    create_policy_key,
    load_token_keys,
    load_token_signer,
    revoke_token_key,
    rotate_policy_key,
    trust_token_key,
)
from remit.crypto.rsa_keys import TokenKey, TokenKeys
from remit.fs.change_signal import ChangeSignal
from remit.ledger.clock import judge_by_ledger
from remit.ledger.entry import NewEntry
from remit.ledger.writer import Batch, Ledger
from remit.masking import mask_text
from remit.store.connection import Connection
from remit.store.tokens import (
    REVOKED_KIND,
    ForeignRevocation,
    TokenRow,
    count_use,
    foreign_revocations,
    insert_revocation,
    insert_token,
    listed_tokens,
    newest_time_unless_revoked,
    revoked_since,
    was_used,
)

SHORTEST_PREFIX = 4


class WaitingRequests(Protocol):
    """A kind of request that is pending for a token, such as a browser request that is held, or a proposed plan."""

    change_signal: ChangeSignal

    def void_of_token(self, batch: Batch, token_jti: str, by: str) -> int: ...


class Tokens:
    """The tokens of a workspace. `config` is called for each token: it has the issuer and the audience."""

    def __init__(
        self,
        folder: Path,
        config: Callable[[], Browser],
        ledger: Callable[[], Ledger],
        waiting: Sequence[Callable[[], WaitingRequests]],
        clock: Clock,
        tenant_id: str = DEFAULT_TENANT,
    ) -> None:
        self._folder = folder
        self._ring = str(folder / RING_FILE)  # read with every request
        self._config = config
        self._ledger = ledger
        self._waiting = waiting
        self._clock = clock
        self._tenant_id = tenant_id
        self._found = VerifiedTokens()
        self._cached: tuple[tuple[int, int, int] | None, TokenKeys] | None = None

    @property
    def keys(self) -> TokenKeys:
        """The current keys. A rotation or revocation by another process is noticed."""
        try:
            found = os.stat(self._ring)
            stamp = (found.st_ino, found.st_mtime_ns, found.st_size)
        except FileNotFoundError:
            stamp = None
        if self._cached is None or self._cached[0] != stamp:
            self._cached = stamp, load_token_keys(self._folder)
        return self._cached[1]

    def issue(self, wish: TokenRequest, *, actor: str | None = None) -> IssuedToken:
        """Sign a capability token and record it. The first token of a workspace makes the policy key.

        Args:
            wish: The agent, the capabilities and the limits.
            actor: The actor of the ledger entry.

        Returns:
            The token. Its `text` is secret: anyone who has it can act with it.

        Raises:
            RefusedError: No check would enforce a constraint, or the lifetime is too short or too long.
            EnvironmentFailureError: The key or the store cannot be used.
        """
        if self.keys.own_key() is None:
            self._make_key(actor)
        config = self._config()
        issued = issue_token(load_token_signer(self._folder), wish, config.issuer, config.audience, self._clock())
        claims = issued.claims
        row = TokenRow(
            claims.jti,
            claims.sub,
            issued.kid,
            _rendered(claims.iat),
            _rendered(claims.nbf if claims.nbf is not None else claims.iat),
            _rendered(claims.exp),
            json.dumps(list(claims.caps)),
            json.dumps(_without_nulls(claims.constraints.tree())),
            issued.digest,
            entry_seq=0,
        )
        payload = {
            "jti": row.jti,
            "sub": row.sub,
            "kid": row.kid,
            "caps": list(claims.caps),
            "constraints": _without_nulls(claims.constraints.tree()),
            "not_before": row.not_before,
            "expires_at": row.expires_at,
            "token_digest": row.token_digest,
        }

        def work(batch: Batch) -> None:
            entry = batch.append(NewEntry(self._tenant_id, "token.issued", row.jti, payload, actor=actor))
            insert_token(batch.store, self._tenant_id, row._replace(entry_seq=entry.seq))

        self._ledger().transact(work)
        return issued

    def verify(self, text: str, now: datetime | None = None) -> Token:
        """Return the token if it is valid now. Checks form, signature, issuer, audience, times and revocation."""
        config = self._config()
        at = now or self._clock()
        token = self._found.verify(text, self.keys, config.issuer, config.audience, at)
        with self._ledger().store.reading_pooled() as connection:
            self._require_unrevoked(connection, token, at)
        return token

    def is_cheap_to_verify(self, text: str) -> bool:
        """Return whether `verify` is faster than starting a thread for it.

        It is if the token was verified before and the database is a local file.
        """
        return self._found.contains(text) and self._ledger().store.dialect == "sqlite"

    def signed_jti(self, text: str) -> str | None:
        """Return the id of a token with a good signature, also if it has expired; otherwise None. Grants nothing."""
        config = self._config()
        try:
            return signed_jti(text, self.keys, config.issuer, config.audience)
        except RefusedError:
            return None

    def require_still_valid(self, connection: Connection, token: Token, now: datetime) -> None:
        """Check again, in the transaction of the intent, that the token and its key are not expired or revoked."""
        require_key_valid(token, self.keys)
        require_in_time(token, now)
        self._require_unrevoked(connection, token, now)

    def _require_unrevoked(self, connection: Connection, token: Token, now: datetime) -> None:
        """Check revocation, and expiry at the time of the newest entry. So a clock set back makes no token valid again.

        This holds in every chain in which the token is used.
        """
        newest = newest_time_unless_revoked(connection, self._tenant_id, token.jti)
        if newest is not None and (recorded := parse_time(newest)) > now:
            judge_by_ledger(lambda at: require_in_time(token, at), recorded, lambda: now)

    def use(self, connection: Connection, token: Token, action_id: str, now: datetime) -> None:
        """Check the token again, and count one action. The transaction of the intent keeps `max_actions` exact."""
        self.require_still_valid(connection, token, now)
        most = token.constraints.max_actions
        count_use(connection, self._tenant_id, token.jti, action_id, render_time(now), most)

    def revoke(self, jti: str, *, actor: str, reason: str | None = None) -> str:
        """Revoke a token, and void the pending requests that were made with it. Return the whole `jti`.

        A token that is unknown here can be revoked too: another workspace may have issued it. A second revocation
        changes nothing.
        """
        full_jti = self.resolve_jti(jti)
        if self.keys.get(full_jti) is not None and full_jti not in {row.jti for row in self.listed()}:
            raise RefusedError(
                Reason.MALFORMED,
                "this is the id of a key, not of a token",
                where=f"key {full_jti}",
                next_step="`remit token list` shows the tokens. To revoke the key, and so all of its tokens: "
                + self._to_revoke(full_jti),
            )
        if not (full_jti.isprintable() and 0 < len(full_jti) <= 200):
            raise RefusedError(Reason.MALFORMED, "a token's id has 1 to 200 printable characters", where="jti")
        why = mask_text(reason)[:1_000] if reason else None

        def work(batch: Batch) -> None:
            if revoked_since(batch.store, self._tenant_id, full_jti) is not None:
                return
            voided = sum(each().void_of_token(batch, full_jti, actor) for each in self._waiting)
            payload = {"jti": full_jti, "reason": why, "approvals_voided": voided}
            entry = batch.append(NewEntry(self._tenant_id, REVOKED_KIND, full_jti, payload, actor=actor))
            insert_revocation(batch.store, self._tenant_id, full_jti, entry.created_at, actor, why, entry.seq)

        self._ledger().transact(work)
        for each in self._waiting:
            each().change_signal.notify()
        return full_jti

    def _to_revoke(self, kid: str) -> str:
        active = self.keys.own_key()
        return "remit token rotate-key --revoke" if active and active.kid == kid else f"remit token distrust {kid}"

    def resolve_jti(self, jti: str) -> str:
        """Complete the beginning of an id if it fits one token issued here. Return any other text unchanged.

        The whole id of a token that was used here is unchanged too: the id of a token from another issuer may look like
        the beginning of an id issued here.
        """
        with self._ledger().store.reading() as connection:
            if was_used(connection, self._tenant_id, jti):
                return jti
        rows = [row for row in self.listed() if len(jti) >= SHORTEST_PREFIX and row.jti.startswith(jti)]
        matching = [row.jti for row in rows if not row.revoked_at] or [row.jti for row in rows]
        if len(matching) > 1 and jti not in matching:
            raise RefusedError(
                Reason.MALFORMED,
                "more than one token has an id with this beginning",
                where=f"token {jti}",
                next_step=f"Give the whole id: {', '.join(matching[:4])}{', and more' if len(matching) > 4 else ''}.",
            )
        return matching[0] if len(matching) == 1 else jti

    def listed(self) -> list[TokenRow]:
        """List the tokens that were issued here, the newest first."""
        with self._ledger().store.reading() as connection:
            return list(listed_tokens(connection, self._tenant_id))

    def foreign_revocations(self) -> list[ForeignRevocation]:
        with self._ledger().store.reading() as connection:
            return list(foreign_revocations(connection, self._tenant_id))

    # --- keys ---------------------------------------------------------------------------------------------------------

    def rotate_key(self, *, revoke: bool = False, actor: str | None = None) -> tuple[TokenKey | None, TokenKey]:
        """Make a new own key. The intention is recorded first, so that the ledger explains the key after a crash."""
        intended = {"role": "policy", "revoke": revoke}
        self._ledger().append(NewEntry(self._tenant_id, "key.rotation_intended", "policy", intended, actor=actor))
        old, new = rotate_policy_key(self._folder, self._clock, revoke=revoke)
        payload = {"role": "policy", "old_key_id": old.kid if old else None, "new_key_id": new.kid}
        kind = "key.revoked" if revoke else "key.rotated"
        self._ledger().append(NewEntry(self._tenant_id, kind, new.kid, payload, actor=actor))
        return old, new

    def trust_key(self, pem: bytes, *, kid: str | None, source: str, actor: str) -> TokenKey:
        """Trust the key of another issuer from now on."""
        key = trust_token_key(self._folder, pem, self._clock, kid=kid, source=source)
        payload = {"role": "policy", "new_key_id": key.kid}
        self._ledger().append(NewEntry(self._tenant_id, "key.trusted", key.kid, payload, actor=actor))
        return key

    def revoke_key(self, kid: str, *, actor: str) -> TokenKey:
        """Revoke a key. No token that it signed is valid any more."""
        key = revoke_token_key(self._folder, kid, self._clock)
        payload = {"role": "policy", "old_key_id": kid}
        self._ledger().append(NewEntry(self._tenant_id, "key.revoked", kid, payload, actor=actor))
        return key

    def _make_key(self, actor: str | None) -> None:
        intended = {"role": "policy"}
        self._ledger().append(NewEntry(self._tenant_id, "key.rotation_intended", "policy", intended, actor=actor))
        key = create_policy_key(self._folder, self._clock)
        payload = {"role": "policy", "new_key_id": key.kid}
        self._ledger().append(NewEntry(self._tenant_id, "key.rotated", key.kid, payload, actor=actor))


def _rendered(seconds: int) -> str:
    return render_time(datetime.fromtimestamp(seconds, UTC))


def _without_nulls(tree: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in tree.items() if value is not None}

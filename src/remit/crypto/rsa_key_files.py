"""RSA keys for capability tokens on disk: the workspace's own private key, and all public keys that verify tokens.

`keys/policy/<kid>.pem` holds the private key (PKCS 8, mode 0600). `keys/policy.json` holds the public keys: the
workspace's own, which is made when the first token is issued, and those of other issuers that a person here trusted.
They are not in the keyring, which holds Ed25519 keys only. The order of writes is the same as there: a private key that
is missing from `policy.json` is never used, and the next change destroys it.
"""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_public_key,
    load_pem_private_key,
)
from pydantic import Field

from remit.contracts.base import Contract, Identifier, Many, Timestamp, VersionOne
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.core.faultpoints import reach
from remit.core.ids import Clock, render_time
from remit.crypto.key_files import changing_keys, destroy_key_file, read_private
from remit.crypto.rsa_keys import (
    LEAST_EXPONENT,
    Origin,
    TokenKey,
    TokenKeys,
    TokenSigner,
    key_thumbprint,
    parse_rsa_pem,
)
from remit.crypto.signing import decode_base64url, encode_base64url
from remit.fs.atomic_write import make_private_directory, write_durably
from remit.fs.state_dir import require_private

RING_FILE: Final = "policy.json"
OWN_BITS: Final = 3_072
MAX_TOKEN_KEYS: Final = 250
RESERVED_FOR_REVOKING: Final = 20
"""The number of keys that only a rotation with `revoke` may add, so that a key which leaked can always be replaced."""


class TokenKeyEntry(Contract):
    kid: Identifier
    origin: Origin
    public_key: Annotated[str, Field(max_length=2_000, pattern=r"^[A-Za-z0-9_-]+$", description="DER, base64url")]
    created_at: Timestamp
    retired_at: Timestamp | None = None
    revoked_at: Timestamp | None = None


class TokenKeyFile(Contract):
    version: VersionOne
    keys: Many[TokenKeyEntry]


def load_token_keys(folder: Path) -> TokenKeys:
    """Return the public keys, which decide which tokens are accepted.

    There are none if no token was issued here and no issuer is trusted.
    """
    require_private(folder, what="the key folder")
    if not _ring_path(folder).exists():
        return TokenKeys()
    raw = read_private(_ring_path(folder), what="the list of token keys")
    keys = [_token_key(entry) for entry in TokenKeyFile.parse(raw, source=RING_FILE).keys]
    if len({key.kid for key in keys}) != len(keys):
        raise RefusedError(Reason.EVIDENCE_INVALID, "the file lists a token key twice", where=RING_FILE)
    if sum(key.origin == "own" and key.is_active for key in keys) > 1:
        raise RefusedError(Reason.EVIDENCE_INVALID, "there is more than one active policy key", where=RING_FILE)
    return TokenKeys(keys)


def create_policy_key(folder: Path, clock: Clock) -> TokenKey:
    """Return the workspace's own key, and make it if there is none. A second or concurrent call changes nothing."""
    with changing_keys(folder):
        ring = load_token_keys(folder)
        _finish_interrupted(folder, ring)
        found = ring.own_key()
        if found is None:
            _require_capacity(ring, MAX_TOKEN_KEYS)
            found = _write_new_key(folder, clock)
            _write_ring(folder, [*ring, found])
        return found


def policy_key_file(folder: Path) -> Path | None:
    """Return the path of the active private key, or None if no token was ever issued here."""
    own_key = load_token_keys(folder).own_key()
    return _private_path(folder, own_key.kid) if own_key else None


def load_token_signer(folder: Path) -> TokenSigner:
    """Return the signer with the active private key. Refuses a file that other users could read or replace."""
    for last in (False, True):
        own_key = load_token_keys(folder).own_key()
        if own_key is None:
            raise EnvironmentFailureError(
                Reason.STATE_MISSING,
                "there is no active policy key",
                where=str(folder),
                next_step="The first `remit token issue` makes one.",
            )
        try:
            return _load_private(folder, own_key)
        except EnvironmentFailureError as problem:
            # Another process may have rotated the key after this one read its name and before it read its file.
            if problem.reason is not Reason.STATE_MISSING or last:
                raise
    raise AssertionError("the second try returns or raises")


def rotate_policy_key(folder: Path, clock: Clock, *, revoke: bool = False) -> tuple[TokenKey | None, TokenKey]:
    """Make a new policy key and retire the old one, if any, or revoke it if it may have leaked. Returns (old, new).

    A retired key still verifies tokens that were issued before. No token of a revoked key is valid.
    """
    with changing_keys(folder):
        ring = load_token_keys(folder)
        _finish_interrupted(folder, ring)
        _require_capacity(ring, MAX_TOKEN_KEYS if revoke else MAX_TOKEN_KEYS - RESERVED_FOR_REVOKING)
        old, new = ring.own_key(), _write_new_key(folder, clock)
        now = render_time(clock())
        retired = old and replace(old, retired_at=now, revoked_at=now if revoke else None)
        _write_ring(folder, [*(retired if old and key.kid == old.kid and retired else key for key in ring), new])
        if old is not None:
            destroy_key_file(_private_path(folder, old.kid))
        return retired, new


def trust_token_key(folder: Path, pem: bytes, clock: Clock, *, kid: str | None = None, source: str) -> TokenKey:
    """Accept tokens that the holder of this public key signs.

    `kid` is the key id that the issuer writes into its tokens. Without it, the thumbprint of the key is used.
    """
    public = parse_rsa_pem(pem, source=source)
    with changing_keys(folder):
        ring = load_token_keys(folder)
        key = TokenKey(kid or key_thumbprint(public), "trusted", public, render_time(clock()))
        if ring.get(key.kid) is not None:
            raise RefusedError(
                Reason.IDEMPOTENCY_CONFLICT,
                "a token key with this id is known already",
                where=key.kid,
                next_step="`remit token keys` shows it. A revoked key stays revoked: ask the issuer for another key.",
            )
        _require_capacity(ring, MAX_TOKEN_KEYS - RESERVED_FOR_REVOKING)
        _write_ring(folder, [*ring, key])
        return key


def revoke_token_key(folder: Path, kid: str, clock: Clock) -> TokenKey:
    """Revoke a key, so that no token that it ever signed is valid.

    To revoke the workspace's own active key, rotate it with `revoke`.
    """
    with changing_keys(folder):
        ring = load_token_keys(folder)
        found = ring.get(kid)
        if found is None or found == ring.own_key():
            what = "this workspace signs its tokens with this key" if found else "no token key has this id"
            advice = "Run: remit token rotate-key --revoke" if found else "`remit token keys` shows the ids."
            raise RefusedError(Reason.KEY_UNKNOWN, what, where=kid, next_step=advice)
        if found.revoked_at:
            raise RefusedError(
                Reason.REVOKED,
                f"this key was already revoked at {found.revoked_at}",
                where=kid,
                next_step="Nothing is left to do: no token of this key is valid. `remit token keys` shows the others.",
            )
        revoked = replace(found, revoked_at=render_time(clock()))
        _write_ring(folder, [revoked if key.kid == kid else key for key in ring])
        return revoked


def _token_key(entry: TokenKeyEntry) -> TokenKey:
    where = f"{RING_FILE}, {entry.kid}"
    try:
        public = load_der_public_key(decode_base64url(entry.public_key))
    except (ValueError, UnsupportedAlgorithm):
        public = None
    if not isinstance(public, RSAPublicKey):
        raise RefusedError(Reason.MALFORMED, "this is not an RSA public key", where=where)
    key = TokenKey(entry.kid, entry.origin, public, entry.created_at, entry.retired_at, entry.revoked_at)
    if key.origin == "own" and key.kid != key_thumbprint(public):
        raise RefusedError(Reason.EVIDENCE_INVALID, "a key id does not fit its key", where=where)
    return key


def _write_new_key(folder: Path, clock: Clock) -> TokenKey:
    private = generate_private_key(LEAST_EXPONENT, OWN_BITS)
    public = private.public_key()
    key = TokenKey(key_thumbprint(public), "own", public, render_time(clock()))
    path = _private_path(folder, key.kid)
    make_private_directory(path.parent)
    require_private(path.parent, what="the folder of the policy key")
    write_durably(path, private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), replace=False)
    reach("keys.private_written")
    return key


def _load_private(folder: Path, key: TokenKey) -> TokenSigner:
    path = _private_path(folder, key.kid)
    advice = "Restore it from a backup, or make a new one: remit token rotate-key"
    require_private(path.parent, what="the folder of the policy key", if_missing=advice)
    # No variable of this frame holds the bytes of the file, so a traceback that prints variables cannot show them.
    private = _parse_private(read_private(path, what="the policy private key"))
    if private is None or key_thumbprint(private.public_key()) != key.kid:
        raise EnvironmentFailureError(
            Reason.STATE_UNSAFE,
            "the policy private key does not belong to the public key in the list of token keys",
            where=str(path),
            next_step="The file was replaced or damaged. Find out who did that, then: remit token rotate-key --revoke",
        )
    return TokenSigner(private)


def _parse_private(raw: bytes) -> RSAPrivateKey | None:
    try:
        loaded = load_pem_private_key(raw, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return loaded if isinstance(loaded, RSAPrivateKey) else None


def _finish_interrupted(folder: Path, ring: TokenKeys) -> None:
    """Destroy the files that a crash left: every private key except the active one, and incomplete files."""
    own_key = ring.own_key()
    active_file = _private_path(folder, own_key.kid) if own_key else None
    for path in [*(folder / "policy").glob("*.pem"), *(folder / "policy").glob(".*.tmp")]:
        if path != active_file:
            destroy_key_file(path)
    for path in folder.glob(f".{RING_FILE}*.tmp"):
        destroy_key_file(path)


def _write_ring(folder: Path, keys: list[TokenKey]) -> None:
    entries = [
        TokenKeyEntry(
            kid=key.kid,
            origin=key.origin,
            public_key=encode_base64url(key.public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)),
            created_at=key.created_at,
            retired_at=key.retired_at,
            revoked_at=key.revoked_at,
        )
        for key in keys
    ]
    write_durably(_ring_path(folder), TokenKeyFile(version=1, keys=tuple(entries)).canonical() + b"\n")
    reach("keys.keyring_written")


def _require_capacity(ring: TokenKeys, most: int) -> None:
    """Refuse a key past `most`. Called before a private key is written."""
    if len(list(ring)) >= most:
        raise EnvironmentFailureError(
            Reason.RESOURCE_EXHAUSTED,
            f"there are {most:,} token keys already",
            where=RING_FILE,
            next_step="Create a new workspace, and keep the keys of this one with its ledger.",
        )


def _ring_path(folder: Path) -> Path:
    return folder / RING_FILE


def _private_path(folder: Path, kid: str) -> Path:
    return folder / "policy" / f"{kid}.pem"

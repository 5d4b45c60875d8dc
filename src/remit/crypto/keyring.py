"""Keys on disk: a folder for each role, a file of mode 0600 for each private key, and a keyring of the public keys.

`keys/<role>/<key_id>.pem` holds a private key (PKCS 8). `keys/keyring.json` holds every public key that this workspace
ever used. A process loads only the role that it needs. The order of writes makes a crash harmless: a private key that
is missing from the keyring is never used, and a retired private key is destroyed only after the keyring says that it is
retired. A process that changes keys locks the folder, and first finishes a change that a crash interrupted.
"""

import os
from collections import Counter
from pathlib import Path
from typing import Annotated, Final, Literal

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)
from pydantic import Field

from remit.contracts.base import Contract, KeyId, Many, Timestamp, VersionOne
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.core.faultpoints import reach
from remit.core.ids import Clock, render_time
from remit.crypto.key_files import changing_keys, destroy_key_file, read_private
from remit.crypto.signing import (
    ROLES,
    Keyring,
    PublicKey,
    Role,
    Signer,
    decode_base64url,
    encode_base64url,
    require_sound_key,
)
from remit.fs.atomic_write import make_private_directory, write_durably
from remit.fs.state_dir import privacy_problem, require_private

MAX_KEYS: Final = 1_000
RESERVED_FOR_REVOKING: Final = 100
"""The number of keys that plain rotations leave free, so that a key which leaked can always be replaced."""


class KeyringEntry(Contract):
    role: Literal["kernel", "protocol", "executor", "audit"]
    key_id: KeyId
    public_key: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{43}$", description="raw Ed25519 key, base64url")]
    created_at: Timestamp
    retired_at: Timestamp | None = None
    revoked_at: Timestamp | None = None


class KeyringFile(Contract):
    version: VersionOne
    keys: Many[KeyringEntry]


def create_keys(folder: Path, clock: Clock) -> Keyring:
    """Make one key for each role that has none yet. A second call, also a concurrent one, changes nothing."""
    make_private_directory(folder)
    with changing_keys(folder):
        known = list(load_keyring(folder)) if _keyring_path(folder).exists() else []
        ring = Keyring(known)
        _finish_interrupted(folder, ring)
        missing = [role for role in ROLES if ring.active(role) is None]
        if missing:
            _require_capacity(folder, len(known) + len(missing), MAX_KEYS)
            fresh = [_write_new_key(folder, role, clock) for role in missing]
            _write_keyring(folder, [*known, *fresh])
        return load_keyring(folder)


def rotate_key(folder: Path, role: Role, clock: Clock, *, revoke: bool = False) -> tuple[PublicKey, PublicKey]:
    """Make a new key for a role and retire the old one, or revoke it if it may have leaked. Returns (old, new).

    The old private key is destroyed. After an interruption, the role has exactly one usable key, the old or the new.
    """
    with changing_keys(folder):
        ring = load_keyring(folder)
        _finish_interrupted(folder, ring)
        old = ring.active(role)
        if old is None:
            raise EnvironmentFailureError(
                Reason.STATE_MISSING,
                f"there is no active {role} key to rotate",
                where=str(folder),
                next_step="`remit keys list` shows the keys, and `remit init` makes a missing one.",
            )
        _require_capacity(folder, len(list(ring)) + 1, MAX_KEYS if revoke else MAX_KEYS - RESERVED_FOR_REVOKING)
        new = _write_new_key(folder, role, clock)
        now = render_time(clock())
        retired = PublicKey(role, old.public, old.created_at, retired_at=now, revoked_at=now if revoke else None)
        _write_keyring(folder, [retired if key.key_id == old.key_id else key for key in ring] + [new])
        destroy_key_file(_private_path(folder, role, old.key_id))
        return retired, new


def revoke_key(folder: Path, key_id: str, clock: Clock) -> PublicKey:
    """Mark a retired key as one that may have leaked. To revoke an active key, rotate it with `revoke`."""
    with changing_keys(folder):
        ring = load_keyring(folder)
        found = next((key for key in ring if key.key_id == key_id), None)
        if found is None or not found.retired_at:
            what = "this key is still active" if found else "no key has this id"
            advice = f"Run: remit keys rotate {found.role} --revoke" if found else "`remit keys list` shows the ids."
            raise RefusedError(Reason.KEY_UNKNOWN, what, where=key_id, next_step=advice)
        if found.revoked_at:
            raise RefusedError(
                Reason.REVOKED,
                f"this key was already revoked at {found.revoked_at}",
                where=key_id,
                next_step="Nothing is left to do: its signatures are not accepted. `remit keys list` shows the others.",
            )
        revoked = PublicKey(found.role, found.public, found.created_at, found.retired_at, render_time(clock()))
        _write_keyring(folder, [revoked if key.key_id == key_id else key for key in ring])
        return revoked


def load_keyring(folder: Path) -> Keyring:
    """Return the public keys.

    They decide which signatures are accepted. So the file and its folder must belong to this user, and other users must
    have no access to them.
    """
    require_private(folder, what="the key folder")
    raw = read_private(_keyring_path(folder), what="the keyring")
    entries = KeyringFile.parse(raw, source="keyring.json").keys
    keys = [_public_key(entry) for entry in entries]
    if len({key.key_id for key in keys}) != len(keys):
        raise RefusedError(Reason.EVIDENCE_INVALID, "the keyring lists a key twice", where="keyring.json")
    active = Counter(key.role for key in keys if not key.retired_at and not key.revoked_at)
    for role, count in active.items():
        if count > 1:
            raise RefusedError(Reason.EVIDENCE_INVALID, f"there are {count} active {role} keys", where="keyring.json")
    return Keyring(keys)


def load_signer(folder: Path, role: Role) -> Signer:
    """Return the signer with the private key of one role. Refuses a file that other users could read or replace."""
    active = _active_key(folder, role)
    while True:
        try:
            return _load_private(folder, active)
        except EnvironmentFailureError as problem:
            # Another process may have rotated the key, even more than once, after this one read its name and before it
            # read its file.
            before, active = active, _active_key(folder, role)
            if problem.reason is not Reason.STATE_MISSING or active.key_id == before.key_id:
                raise


def _active_key(folder: Path, role: Role) -> PublicKey:
    active = load_keyring(folder).active(role)
    if active is None:
        raise EnvironmentFailureError(
            Reason.STATE_MISSING,
            f"there is no active {role} key",
            where=str(folder),
            next_step="Run `remit init` in the workspace to make the missing keys.",
        )
    return active


def _load_private(folder: Path, key: PublicKey) -> Signer:
    role = key.role
    path = _private_path(folder, role, key.key_id)
    advice = f"Restore it from a backup, or make a new one: remit keys rotate {role}"
    require_private(path.parent, what=f"the folder of the {role} key", if_missing=advice)
    # No variable of this frame holds the bytes of the file, so a traceback that prints variables cannot show them.
    private = _parse_private(read_private(path, what=f"the {role} private key"))
    if private is None:
        raise EnvironmentFailureError(
            Reason.STATE_UNSAFE,
            f"the {role} private key is not a readable Ed25519 key",
            where=str(path),
            next_step=advice,
        )
    signer = Signer(role, private)
    if signer.key_id != key.key_id:
        raise EnvironmentFailureError(
            Reason.STATE_UNSAFE,
            f"the {role} private key does not belong to the public key in the keyring",
            where=str(path),
            next_step="The file was replaced. Find out who did that before you continue.",
        )
    return signer


def render_public_pem(key: PublicKey) -> str:
    loaded = Ed25519PublicKey.from_public_bytes(key.public)
    return loaded.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode("ascii")


def parse_public_pem(raw: bytes, role: Role, *, source: str) -> Keyring:
    """Return a keyring of one or more PEM public keys that an auditor trusts for `role`."""
    blocks = raw.split(b"-----END PUBLIC KEY-----")[:-1]
    keys = []
    for block in blocks:
        try:
            loaded = load_pem_public_key(block.strip() + b"\n-----END PUBLIC KEY-----\n")
        except (ValueError, UnsupportedAlgorithm):
            loaded = None
        if not isinstance(loaded, Ed25519PublicKey):
            raise RefusedError(Reason.MALFORMED, "this is not an Ed25519 public key in PEM form", where=source)
        public = loaded.public_bytes_raw()
        require_sound_key(public, where=source)
        keys.append(PublicKey(role, public, created_at="1970-01-01T00:00:00Z"))
    if not keys:
        raise RefusedError(
            Reason.MALFORMED,
            "there is no public key in this file",
            where=source,
            next_step="`remit keys export audit` writes the file that is needed here.",
        )
    return Keyring(keys)


def private_key_problems(folder: Path) -> list[str]:
    """Return the problems of the files in the key folder, for `remit doctor`. Loads no private key."""
    if not folder.exists():
        return [f"{folder} is missing"]
    problems = []
    for path in [folder, *sorted(folder.rglob("*"))]:
        why = privacy_problem(os.lstat(path))
        if why:
            problems.append(f"{path} {why}")
    return problems


def _finish_interrupted(folder: Path, ring: Keyring) -> None:
    """Destroy the files that a crash left: private keys that are already retired, and incomplete files."""
    for key in ring:
        if key.retired_at or key.revoked_at:
            destroy_key_file(_private_path(folder, key.role, key.key_id))
    for directory in [folder, *(folder / role for role in ROLES)]:
        for path in list(directory.glob(".*.tmp")):
            destroy_key_file(path)


def _parse_private(raw: bytes) -> Ed25519PrivateKey | None:
    try:
        loaded = load_pem_private_key(raw, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return loaded if isinstance(loaded, Ed25519PrivateKey) else None


def _keyring_path(folder: Path) -> Path:
    return folder / "keyring.json"


def _private_path(folder: Path, role: Role, key_id: str) -> Path:
    return folder / role / f"{key_id}.pem"


def _write_new_key(folder: Path, role: Role, clock: Clock) -> PublicKey:
    private = Ed25519PrivateKey.generate()
    key = PublicKey(role, private.public_key().public_bytes_raw(), render_time(clock()))
    path = _private_path(folder, role, key.key_id)
    make_private_directory(path.parent)
    require_private(path.parent, what=f"the folder of the {role} key")
    write_durably(path, private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), replace=False)
    reach("keys.private_written")
    return key


def _require_capacity(folder: Path, count: int, most: int) -> None:
    """Refuse more than `most` keys.

    Called before a private key is written, because a private key that never gets into the keyring would stay on disk.
    """
    if count > most:
        raise EnvironmentFailureError(
            Reason.RESOURCE_EXHAUSTED,
            f"the keyring would hold more than {most:,} keys",
            where=str(_keyring_path(folder)),
            next_step="Create a new workspace, and keep this keyring with the old ledger."
            + (" A key that leaked can still be replaced, with --revoke." if most < MAX_KEYS else ""),
        )


def _write_keyring(folder: Path, keys: list[PublicKey]) -> None:
    entries = [
        KeyringEntry(
            role=key.role,
            key_id=key.key_id,
            public_key=encode_base64url(key.public),
            created_at=key.created_at,
            retired_at=key.retired_at,
            revoked_at=key.revoked_at,
        )
        for key in keys
    ]
    write_durably(_keyring_path(folder), KeyringFile(version=1, keys=tuple(entries)).canonical() + b"\n")
    reach("keys.keyring_written")


def _public_key(entry: KeyringEntry) -> PublicKey:
    where = f"keyring.json, {entry.key_id}"
    try:
        raw = decode_base64url(entry.public_key)
    except ValueError as problem:
        raise RefusedError(Reason.MALFORMED, str(problem), where=where) from None
    require_sound_key(raw, where=where)
    key = PublicKey(entry.role, raw, entry.created_at, entry.retired_at, entry.revoked_at)
    if key.key_id != entry.key_id:
        raise RefusedError(Reason.EVIDENCE_INVALID, "a key id does not fit its key", where=where)
    return key

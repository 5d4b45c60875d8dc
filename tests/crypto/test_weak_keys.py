"""Public keys that prove nothing: points of small order, for which anybody can sign, and second spellings."""

import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from remit.core.errors import Reason, RefusedError
from remit.core.ids import system_clock
from remit.crypto.keyring import create_keys, load_keyring, parse_public_pem
from remit.crypto.signing import PublicKey, encode_base64url, key_id_of, pre_authentication_encoding

P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P
Point = tuple[int, int]
IDENTITY: Point = (0, 1)


def add(a: Point, b: Point) -> Point:
    """RFC 8032, section 5.1.4, the slow way."""
    t = D * a[0] * b[0] * a[1] * b[1]
    x = (a[0] * b[1] + a[1] * b[0]) * pow(1 + t, -1, P)
    y = (a[1] * b[1] + a[0] * b[0]) * pow(1 - t, -1, P)
    return x % P, y % P


def eightfold(point: Point) -> Point:
    for _ in range(3):
        point = add(point, point)
    return point


def root(square: int) -> int | None:
    x = pow(square, (P + 3) // 8, P)
    for candidate in (x, x * pow(2, (P - 1) // 4, P) % P):
        if candidate * candidate % P == square % P:
            return candidate
    return None


def points_of(y: int) -> list[Point]:
    x = root((y * y - 1) * pow(D * y * y + 1, -1, P))
    return [] if x is None else [(x, y % P), (-x % P, y % P)]


def encode(y: int, sign: int) -> bytes:
    return (y | sign << 255).to_bytes(32, "little")


def small_order_points() -> set[Point]:
    """Found afresh: some point, multiplied by the group's large prime order, leaves a part of small order."""
    large = 2**252 + 27742317777372353535851937790883648493
    found = {IDENTITY}
    y = 2
    while len(found) < 8:
        for point in points_of(y):
            total, doubled, left = IDENTITY, point, large
            while left:
                total = add(total, doubled) if left & 1 else total
                doubled, left = add(doubled, doubled), left >> 1
            found.add(total)
        y += 1
    return found


SMALL = sorted(small_order_points())
WEAK = sorted(
    {encode(y, sign) for _, y in SMALL for sign in (0, 1)}
    | {encode(y + P, sign) for _, y in SMALL if y + P < 2**255 for sign in (0, 1)}
    | {encode(P + 3, 0), encode(2**255 - 1, 0), encode(2**255 - 1, 1)}
)


def test_there_are_eight_points_of_small_order() -> None:
    assert len(SMALL) == 8
    assert all(eightfold(point) == IDENTITY for point in SMALL)


def test_a_signature_for_a_key_of_small_order_needs_no_private_key() -> None:
    """The danger is real: without a private key, a signature that the library accepts for any message."""
    forged = encode(1, 0) + bytes(32)
    for message in (b"", b"the ledger has no entry", pre_authentication_encoding("ledger-head", b"{}")):
        Ed25519PublicKey.from_public_bytes(encode(1, 0)).verify(forged, message)


@pytest.mark.parametrize("public", WEAK, ids=bytes.hex)
def test_a_weak_key_is_refused_wherever_it_comes_from(public: bytes, tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="this Ed25519 public key is unsafe") as caught:
        PublicKey("audit", public, "2026-01-31T09:30:00Z")
    assert caught.value.reason is Reason.MALFORMED
    pem = Ed25519PublicKey.from_public_bytes(public).public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    with pytest.raises(RefusedError, match="this Ed25519 public key is unsafe") as caught:
        parse_public_pem(pem, "audit", source="auditor.pem")
    assert caught.value.where == "auditor.pem"
    create_keys(tmp_path / "keys", system_clock)
    path = tmp_path / "keys" / "keyring.json"
    ring = json.loads(path.read_bytes())
    ring["keys"][0].update(public_key=encode_base64url(public), key_id=key_id_of(public))
    path.write_text(json.dumps(ring))
    with pytest.raises(RefusedError, match="this Ed25519 public key is unsafe"):
        load_keyring(tmp_path / "keys")


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_key_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(RefusedError, match="this Ed25519 public key is unsafe"):
        PublicKey("audit", b"\2" * size, "2026-01-31T09:30:00Z")


def test_keys_that_were_drawn_are_accepted() -> None:
    for _ in range(200):
        public = Ed25519PrivateKey.generate().public_key().public_bytes_raw()
        assert PublicKey("audit", public, "2026-01-31T09:30:00Z").public == public

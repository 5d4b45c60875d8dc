"""Signatures: the published vectors, and that nothing but the exact bytes, purpose, key and signature verifies."""

import base64
import string
from pathlib import Path
from typing import Any, get_args

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st

from remit.core.errors import Reason, RefusedError, UsageError
from remit.crypto import signing
from remit.crypto.keyring import (
    KeyringEntry,
    KeyringFile,
    load_keyring,
    load_signer,
    parse_public_pem,
    render_public_pem,
)
from remit.crypto.signing import (
    ROLE_OF,
    ROLES,
    Keyring,
    PublicKey,
    Purpose,
    Role,
    Signer,
    decode_base64url,
    encode_base64url,
    key_id_of,
    pre_authentication_encoding,
)
from tests.crypto.rfc8032 import VECTORS, Vector

NOW = "2026-01-31T09:30:00Z"
BODY = b'{"seq":7,"tenant_id":"t"}'
ORDER = 2**252 + 27742317777372353535851937790883648493  # of the base point of Ed25519
BASE64URL = string.ascii_uppercase + string.ascii_lowercase + string.digits + "-_"

SIGNER = Signer("audit", Ed25519PrivateKey.from_private_bytes(VECTORS[0].seed))
OTHER = Signer("audit", Ed25519PrivateKey.from_private_bytes(VECTORS[1].seed))
KEYRING = Keyring([PublicKey("audit", signer.public, NOW) for signer in (SIGNER, OTHER)])
SIGNATURE = SIGNER.sign("ledger-head", BODY)


@pytest.fixture(autouse=True)
def nothing_is_known() -> None:
    """Each signature is computed anew: else what was signed here would be believed without it."""
    signing._VERIFIED._signatures.clear()  # noqa: SLF001


def test_what_is_known_to_fit_is_known_of_this_key_these_bytes_and_this_signature_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    signature = SIGNER.sign("ledger-head", BODY)
    with monkeypatch.context() as patched:
        patched.setattr("remit.crypto.signing.Ed25519PublicKey", None)  # no arithmetic to be had
        fresh = Keyring([PublicKey("audit", signer.public, NOW) for signer in (SIGNER, OTHER)])
        fresh.verify("ledger-head", SIGNER.key_id, BODY, signature, signed_at=NOW)
        revoked = Keyring([PublicKey("audit", SIGNER.public, NOW, revoked_at=NOW)])
        with pytest.raises(RefusedError) as caught:
            revoked.verify("ledger-head", SIGNER.key_id, BODY, signature, signed_at=NOW)
        assert caught.value.reason is Reason.REVOKED
        with pytest.raises(RefusedError) as caught:
            Keyring([]).verify("ledger-head", SIGNER.key_id, BODY, signature, signed_at=NOW)
        assert caught.value.reason is Reason.KEY_UNKNOWN
    assert not accepts(body=BODY + b" ", signature=signature)
    assert not accepts(key_id=OTHER.key_id, signature=signature)
    assert not accepts(signature=OTHER.sign("ledger-head", BODY))
    for number in range(signing._VerifiedSignatures.MOST + 10):  # noqa: SLF001 - bounded
        SIGNER.sign("ledger-head", b"%d" % number)
    assert len(signing._VERIFIED._signatures) <= signing._VerifiedSignatures.MOST  # noqa: SLF001


def accepts(
    *, purpose: Purpose = "ledger-head", key_id: str = SIGNER.key_id, body: bytes = BODY, signature: str = SIGNATURE
) -> bool:
    try:
        KEYRING.verify(purpose, key_id, body, signature, signed_at=NOW)
    except RefusedError:
        return False
    return True


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def store_key(folder: Path, role: Role, seed: bytes) -> None:
    """A key folder as `remit init` would have made it, around a given key."""
    private = Ed25519PrivateKey.from_private_bytes(seed)
    public = private.public_key().public_bytes_raw()
    key_id = key_id_of(public)
    (folder / role).mkdir(parents=True, mode=0o700)
    folder.chmod(0o700)
    file = folder / role / f"{key_id}.pem"
    file.touch(mode=0o600)
    file.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    entry = KeyringEntry(role=role, key_id=key_id, public_key=encode_base64url(public), created_at=NOW)
    keyring = folder / "keyring.json"
    keyring.touch(mode=0o600)
    keyring.write_bytes(KeyringFile(version=1, keys=(entry,)).canonical())


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_ed25519_vectors_of_rfc_8032_pass_with_a_key_loaded_from_its_file(vector: Vector, tmp_path: Path) -> None:
    store_key(tmp_path / "keys", "audit", vector.seed)
    signer = load_signer(tmp_path / "keys", "audit")
    keyring = load_keyring(tmp_path / "keys")
    assert signer.public == vector.public

    private = signer._private  # noqa: SLF001 - a Signer signs typed bytes only, the vectors are raw
    assert private.sign(vector.message) == vector.signature

    key = keyring.active("audit")
    assert key is not None
    matches = keyring._matches  # noqa: SLF001 - as above
    assert matches(key, vector.message, encode_base64url(vector.signature))
    assert not matches(key, vector.message + b"\0", encode_base64url(vector.signature))


def test_a_signature_is_made_over_the_purpose_and_the_body() -> None:
    # The encoding is that of DSSE: "DSSEv1", then each part after its length.
    assert pre_authentication_encoding("lease", b"{}") == b"DSSEv1 32 application/vnd.remit.lease+json 2 {}"
    private = Ed25519PrivateKey.from_private_bytes(VECTORS[0].seed)
    expected = private.sign(b"DSSEv1 38 application/vnd.remit.ledger-head+json 25 " + BODY)
    assert encode_base64url(expected) == SIGNATURE


def test_jwk_thumbprint_of_rfc_8037_is_the_key_id() -> None:
    # RFC 8037, appendix A.1 to A.3
    private = Ed25519PrivateKey.from_private_bytes(decode_base64url("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"))
    public = private.public_key().public_bytes_raw()
    assert encode_base64url(public) == "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
    assert key_id_of(public) == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"


def test_jws_of_rfc_8037_signs_and_verifies() -> None:
    # RFC 8037, appendix A.4 and A.5
    signing_input = b"eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc"
    signature = "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"
    private = SIGNER._private  # noqa: SLF001 - the vector is raw
    assert encode_base64url(private.sign(signing_input)) == signature
    key = next(iter(KEYRING))
    assert KEYRING._matches(key, signing_input, signature)  # noqa: SLF001 - the RFC signs raw bytes, not our encoding


def test_the_untouched_signature_is_accepted() -> None:
    assert accepts()


def test_every_one_bit_change_of_the_body_breaks_the_signature() -> None:
    assert not any(accepts(body=flipped(BODY, bit)) for bit in range(8 * len(BODY)))


def test_every_one_bit_change_of_the_signature_breaks_it() -> None:
    raw = decode_base64url(SIGNATURE)
    assert not any(accepts(signature=encode_base64url(flipped(raw, bit))) for bit in range(8 * len(raw)))


def test_every_other_character_in_the_signature_breaks_it() -> None:
    for place, original in enumerate(SIGNATURE):
        for other in (*BASE64URL, "+", "/", "=", " ", "\n", "é", "\0"):
            if other != original:
                assert not accepts(signature=SIGNATURE[:place] + other + SIGNATURE[place + 1 :]), (place, other)


def test_every_other_character_in_the_key_id_is_an_unknown_key() -> None:
    for place, original in enumerate(SIGNER.key_id):
        for other in BASE64URL:
            if other != original:
                key_id = SIGNER.key_id[:place] + other + SIGNER.key_id[place + 1 :]
                with pytest.raises(RefusedError) as refused:
                    KEYRING.verify("ledger-head", key_id, BODY, SIGNATURE, signed_at=NOW)
                assert refused.value.reason is Reason.KEY_UNKNOWN


@given(st.binary(min_size=1, max_size=300), st.data())
def test_any_changed_byte_of_any_body_breaks_the_signature(body: bytes, data: st.DataObject) -> None:
    signature = SIGNER.sign("ledger-head", body)
    assert accepts(body=body, signature=signature)
    place = data.draw(st.integers(0, len(body) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda value: value != body[place]))
    assert not accepts(body=body[:place] + bytes([byte]) + body[place + 1 :], signature=signature)


@given(st.binary(max_size=100), st.binary(min_size=1, max_size=4), st.integers(0, 100))
def test_any_added_byte_breaks_the_signature(body: bytes, more: bytes, place: int) -> None:
    assert not accepts(body=body[:place] + more + body[place:], signature=SIGNER.sign("ledger-head", body))


@given(st.binary(max_size=100), st.binary(max_size=100))
def test_another_body_never_fits(first: bytes, second: bytes) -> None:
    assert accepts(body=second, signature=SIGNER.sign("ledger-head", first)) == (first == second)


def test_a_signature_for_one_purpose_fits_no_other_even_with_the_same_key(subtests: pytest.Subtests) -> None:
    for purpose in [purpose for purpose in get_args(Purpose) if purpose != "ledger-head"]:
        with subtests.test(purpose=purpose):
            same_key = Keyring([PublicKey(ROLE_OF[purpose], SIGNER.public, NOW)])
            with pytest.raises(RefusedError) as refused:
                same_key.verify(purpose, SIGNER.key_id, BODY, SIGNATURE, signed_at=NOW)
            assert refused.value.reason is Reason.SIGNATURE_INVALID


def test_a_signature_by_another_known_key_is_refused() -> None:
    assert not accepts(signature=OTHER.sign("ledger-head", BODY))
    assert not accepts(key_id=OTHER.key_id)


def test_the_second_spelling_of_the_scalar_is_refused() -> None:
    """S and S + L satisfy the same equation: an implementation that does not compare would take both."""
    raw = decode_base64url(SIGNATURE)
    scalar = int.from_bytes(raw[32:], "little")
    for multiple in (1, 2, 8):
        twin = raw[:32] + (scalar + multiple * ORDER).to_bytes(32, "little")
        assert not accepts(signature=encode_base64url(twin))


def test_a_signature_has_one_spelling_only(subtests: pytest.Subtests) -> None:
    for case, spelling in [
        ("padding", SIGNATURE + "=="),
        ("newline", SIGNATURE + "\n"),
        ("leading blank", " " + SIGNATURE),
        ("folded", SIGNATURE[:40] + "\r\n" + SIGNATURE[40:]),
        ("spare bits set", SIGNATURE[:-1] + BASE64URL[BASE64URL.index(SIGNATURE[-1]) + 1]),
        ("plain base64", base64.b64encode(decode_base64url(SIGNATURE)).decode()),
        ("hex", decode_base64url(SIGNATURE).hex()),
        ("longer", SIGNATURE + "AAAA"),
        ("shorter", SIGNATURE[:-2]),
        ("nothing", ""),
    ]:
        with subtests.test(case):
            assert not accepts(signature=spelling)


@given(st.binary(max_size=80))
def test_base64url_reads_back_and_has_no_second_spelling(data: bytes) -> None:
    text = encode_base64url(data)
    assert decode_base64url(text) == data
    if len(data) % 3:
        place = BASE64URL.index(text[-1])
        with pytest.raises(ValueError, match="base64url"):
            decode_base64url(text[:-1] + BASE64URL[place + 1])


@pytest.mark.req("EI-17")
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("purpose", get_args(Purpose))
def test_a_key_signs_and_verifies_for_its_own_purpose_only(role: Role, purpose: Purpose) -> None:
    signer = Signer(role, Ed25519PrivateKey.generate())
    keyring = Keyring([PublicKey(role, signer.public, NOW)])
    if ROLE_OF[purpose] == role:
        keyring.verify(purpose, signer.key_id, BODY, signer.sign(purpose, BODY), signed_at=NOW)
        return
    with pytest.raises(UsageError, match=f"the {role} key may not sign a {purpose}"):
        signer.sign(purpose, BODY)
    forged: Any = signer._private.sign(pre_authentication_encoding(purpose, BODY))  # noqa: SLF001 - the thief's way
    with pytest.raises(RefusedError) as refused:
        keyring.verify(purpose, signer.key_id, BODY, encode_base64url(forged), signed_at=NOW)
    assert refused.value.reason is Reason.KEY_UNKNOWN


def test_each_purpose_belongs_to_exactly_one_role_and_each_role_has_one() -> None:
    assert set(ROLE_OF.values()) == set(ROLES)
    assert sorted(get_args(Purpose)) == sorted(ROLE_OF)


def test_public_keys_travel_as_pem() -> None:
    first, second = list(KEYRING)
    handed_over = parse_public_pem(
        (render_public_pem(first) + render_public_pem(second)).encode(), "audit", source="a file"
    )
    assert {key.key_id for key in handed_over} == {SIGNER.key_id, OTHER.key_id}
    handed_over.verify("ledger-head", SIGNER.key_id, BODY, SIGNATURE, signed_at=NOW)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
        b"-----END PUBLIC KEY-----",
        render_public_pem(next(iter(KEYRING))).encode()[:-30],
        render_public_pem(next(iter(KEYRING))).encode().replace(b"PUBLIC", b"PRIVATE"),
    ],
    ids=["empty", "garbage", "only an end", "cut short", "another label"],
)
def test_a_file_without_a_public_key_is_refused(raw: bytes) -> None:
    with pytest.raises(RefusedError) as refused:
        parse_public_pem(raw, "audit", source="a file")
    assert refused.value.reason is Reason.MALFORMED

"""The policy key on disk: private, crash-safe, rotated and revoked; and the keys of issuers that somebody trusts."""

import os
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError
from remit.core.ids import system_clock
from remit.crypto.keyring import create_keys, load_signer, private_key_problems
from remit.crypto.rsa_key_files import (
    create_policy_key,
    load_token_keys,
    load_token_signer,
    revoke_token_key,
    rotate_policy_key,
    trust_token_key,
)
from remit.crypto.rsa_keys import key_thumbprint
from tests.identity.forging import public_pem, rsa_key
from tests.support import preloaded
from tests.support.child_process import Fault, run_child
from tests.support.sampling import some

KILLED = {
    "durable.written": (1, 2),
    "durable.synced": (1, 2),
    "durable.renamed": (1, 2),
    "durable.directory_synced": (1, 2),
    "keys.private_written": (1,),
    "keys.keyring_written": (1,),
}
WORK = """
import sys
from pathlib import Path
from remit.crypto.rsa_key_files import create_policy_key, rotate_policy_key
from remit.core.ids import system_clock
from tests.support.child_process import acknowledge
folder = Path(sys.argv[2])
if sys.argv[1] == "create":
    acknowledge(create_policy_key(folder, system_clock).kid)
else:
    acknowledge(rotate_policy_key(folder, system_clock)[1].kid)
"""


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    folder = tmp_path / "keys"
    create_keys(folder, system_clock)
    return folder


def private_files(keys: Path) -> list[str]:
    return sorted(path.name for path in (keys / "policy").iterdir()) if (keys / "policy").exists() else []


def require_sound(keys: Path) -> None:
    """One active key, its private half there, closed to others, and nothing else left behind."""
    own = load_token_keys(keys).own_key()
    assert own is not None
    assert load_token_signer(keys).kid == own.kid
    assert private_files(keys) == [f"{own.kid}.pem"]
    assert not list(keys.glob(".policy*"))
    assert private_key_problems(keys) == []


def test_no_key_exists_before_one_is_made_and_making_it_twice_makes_one(keys: Path) -> None:
    assert list(load_token_keys(keys)) == []
    with pytest.raises(EnvironmentFailureError, match="no active policy key"):
        load_token_signer(keys)
    first = create_policy_key(keys, system_clock)
    assert create_policy_key(keys, system_clock).kid == first.kid
    assert (first.public.key_size, first.kid) == (3_072, key_thumbprint(first.public))
    require_sound(keys)
    load_signer(keys, "kernel")


def test_after_a_rotation_the_old_private_key_is_gone_and_the_public_one_is_retired(keys: Path) -> None:
    old = create_policy_key(keys, system_clock)
    retired, new = rotate_policy_key(keys, system_clock)
    assert retired is not None
    assert (retired.kid, retired.revoked_at) == (old.kid, None)
    assert retired.retired_at
    assert load_token_keys(keys).own_key() == new
    require_sound(keys)
    again, _ = rotate_policy_key(keys, system_clock, revoke=True)
    assert again is not None
    assert (again.kid, bool(again.revoked_at)) == (new.kid, True)
    require_sound(keys)


@pytest.mark.parametrize("work", ["create", "rotate"])
@pytest.mark.parametrize(
    "fault", some((Fault(name, count) for name, counts in KILLED.items() for count in counts), 2), ids=str
)
def test_a_crash_leaves_one_usable_key_or_none(keys: Path, work: str, fault: Fault) -> None:
    before = create_policy_key(keys, system_clock) if work == "rotate" else None
    ended = run_child([preloaded.python(), "-c", WORK, work, str(keys)], fault=fault)
    assert ended.killed, ended.output
    own = load_token_keys(keys).own_key()
    if work == "rotate":
        assert own is not None
        assert load_token_signer(keys).kid == own.kid
        assert before is not None
        assert load_token_keys(keys).get(before.kid) is not None
    create_policy_key(keys, system_clock)
    require_sound(keys)
    if own is not None:
        assert load_token_signer(keys).kid == own.kid


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
@pytest.mark.parametrize("which", ["private", "list"])
def test_a_key_file_that_others_could_read_is_refused(keys: Path, mode: int, which: str) -> None:
    key = create_policy_key(keys, system_clock)
    path = keys / "policy" / f"{key.kid}.pem" if which == "private" else keys / "policy.json"
    path.chmod(mode)
    with pytest.raises(EnvironmentFailureError) as caught:
        load_token_signer(keys)
    assert caught.value.reason is Reason.STATE_UNSAFE


def test_a_private_key_that_was_exchanged_is_refused(keys: Path) -> None:
    key = create_policy_key(keys, system_clock)
    path = keys / "policy" / f"{key.kid}.pem"
    path.write_bytes(rsa_key("evil").private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with pytest.raises(EnvironmentFailureError, match="does not belong to the public key") as caught:
        load_token_signer(keys)
    assert "PRIVATE" not in str(caught.value)


@pytest.mark.parametrize("spoil", ["twice", "two own", "other id", "link", "garbage"])
def test_a_list_of_keys_that_contradicts_itself_is_refused(keys: Path, spoil: str) -> None:
    create_policy_key(keys, system_clock)
    path = keys / "policy.json"
    text = path.read_text()
    entry = text[text.index("[") + 1 : text.rindex("]")]
    renamed = entry.replace('kid":"', 'kid":"x')
    if spoil == "link":
        path.rename(keys / "elsewhere.json")
        path.symlink_to(keys / "elsewhere.json")
    else:
        changed = {
            "twice": text.replace(entry, f"{entry},{entry}"),
            "two own": text.replace(entry, f"{entry},{renamed}"),
            "other id": text.replace(entry, renamed),
            "garbage": "[" * 100,
        }
        path.write_text(changed[spoil])
    with pytest.raises(RemitError):
        load_token_keys(keys)


@pytest.mark.req("VX-01")
def test_another_issuer_can_be_trusted_and_distrusted(keys: Path) -> None:
    pem = public_pem(rsa_key("k1"))
    key = trust_token_key(keys, pem, system_clock, kid="their-key", source="k1.pem")
    assert load_token_keys(keys).get("their-key") == key
    with pytest.raises(RefusedError, match="known already"):
        trust_token_key(keys, pem, system_clock, kid="their-key", source="k1.pem")
    assert revoke_token_key(keys, "their-key", system_clock).revoked_at
    with pytest.raises(RefusedError, match="revoked at"):
        revoke_token_key(keys, "their-key", system_clock)
    with pytest.raises(RefusedError, match="known already"):
        trust_token_key(keys, pem, system_clock, kid="their-key", source="k1.pem")
    assert load_token_keys(keys).own_key() is None


def test_the_own_key_is_not_revoked_without_a_successor(keys: Path) -> None:
    key = create_policy_key(keys, system_clock)
    with pytest.raises(RefusedError) as caught:
        revoke_token_key(keys, key.kid, system_clock)
    assert caught.value.next_step == "Run: remit token rotate-key --revoke"
    with pytest.raises(RefusedError, match="no token key has this id"):
        revoke_token_key(keys, "nobody", system_clock)


@pytest.mark.req("VX-01")
@pytest.mark.parametrize("kind", ["1024 bits", "ed25519", "private", "garbage", "empty"])
def test_a_weak_or_invalid_public_key_is_not_trusted(keys: Path, kind: str) -> None:
    weak = public_pem(rsa_key("weak", bits=1_024))
    other = Ed25519PrivateKey.generate().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    private = rsa_key("k1").private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    given = {"1024 bits": weak, "ed25519": other, "private": private, "garbage": b"-----BEGIN", "empty": b""}
    with pytest.raises(RefusedError) as caught:
        trust_token_key(keys, given[kind], system_clock, source="given.pem")
    assert caught.value.where == "given.pem"
    assert list(load_token_keys(keys)) == []
    assert not os.path.exists(keys / "policy.json")

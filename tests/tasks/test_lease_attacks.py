"""Every known way to come by authority that nobody gave, each mapped to our leases, which are closed JSON and no JWTs.

A lease has no algorithm, no key inside and no address of one: whoever puts such a field in is refused for the field.
"""

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from remit.authority.lease import issue_lease
from remit.contracts.tasks.task import TaskManifest
from remit.core.canonical import canonical_bytes
from remit.core.ids import render_time
from remit.crypto.signing import Signer, pre_authentication_encoding
from remit.workspace.workspace import Workspace
from tests.support.postgres_databases import fresh_database
from tests.support.task_workspace import CONTENT, VARIABLE, MovableClock, file_task, made_workspace

pytestmark = pytest.mark.req("EI-06", "EI-17")

Tree = dict[str, Any]
ATTACKER = Signer("kernel", Ed25519PrivateKey.from_private_bytes(b"\7" * 32))
NOBODY = "A" * 86
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


class Theft:
    """A file that an attacker wants deleted, a good lease to start from, and what the attacker can do with it."""

    def __init__(self, workspace: Workspace, base: Path, name: str = "theft") -> None:
        self.workspace = workspace
        self.target = base / f"precious to {name}"
        self.target.write_bytes(CONTENT)
        self.task = file_task(name, "FILE_DELETE", self.target)
        self.good: Tree = workspace.issue_lease(self.task).tree()
        self.public = base64.b64encode(workspace.tasks.kernel.signer().public)
        self.manifest_digest = TaskManifest.parse(self.task).digest()

    def body(self, lease: Tree) -> bytes:
        fields = {name: value for name, value in lease.items() if name != "signature"}
        return canonical_bytes({**fields, "manifest_digest": self.manifest_digest})

    def with_(self, **changes: Any) -> bytes:
        """The good lease with fields changed or added, its signature kept."""
        return json.dumps({**self.good, **changes}).encode()

    def signed(self, **changes: Any) -> bytes:
        """Signed by the kernel itself, over whatever stands there: what a careless issuer could be talked into."""
        return self._signed(self.workspace.tasks.kernel.signer(), changes)

    def by_attacker(self, **changes: Any) -> bytes:
        return self._signed(ATTACKER, changes)

    def by_hmac(self, secret: bytes, **changes: Any) -> bytes:
        lease = {**self.good, **changes}
        mac = hmac.new(secret, pre_authentication_encoding("lease", self.body(lease)), hashlib.sha512).digest()
        return json.dumps({**lease, "signature": encoded(mac)}).encode()

    def _signed(self, signer: Signer, changes: Tree) -> bytes:
        lease = {**self.good, **changes}
        return json.dumps({**lease, "signature": signer.sign("lease", self.body(lease))}).encode()


def encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def hence(**time: float) -> str:
    return render_time(datetime.now(UTC) + timedelta(**time))


def respelled(signature: str) -> str:
    """Another last letter for the same bytes: the letter's low bits are beyond their end."""
    last = ALPHABET.index(signature[-1])
    return signature[:-1] + ALPHABET[last ^ 1]


def flipped(theft: Theft) -> bytes:
    raw = bytearray(theft.with_())
    raw[raw.index(b"theft") + 1] ^= 1
    return bytes(raw)


def spliced(theft: Theft) -> bytes:
    other = theft.workspace.issue_lease(file_task("other", "FILE_DELETE", theft.target)).signature
    return theft.with_(signature=other)


def as_jws(theft: Theft, header: Tree, segments: int = 3) -> bytes:
    parts = [encoded(json.dumps(part).encode()) for part in (header, theft.good)] + [theft.good["signature"], "x"]
    return ".".join(parts[:segments]).encode()


def as_flattened_jws(theft: Theft) -> bytes:
    payload = encoded(json.dumps(theft.good).encode())
    return json.dumps({"payload": payload, "protected": "e30", "signature": theft.good["signature"]}).encode()


def with_literal(theft: Theft, field: str, literal: str) -> bytes:
    """A value that json.dumps would not write."""
    return theft.with_(**{field: "@@"}).replace(b'"@@"', literal.encode())


PUBLIC_PEM = b"-----BEGIN PUBLIC KEY-----\n"
OKP = {"kty": "OKP", "crv": "Ed25519", "x": "AAAA"}

ATTACKS: dict[str, Callable[[Theft], bytes]] = {
    "lease-001 alg none": lambda theft: theft.with_(alg="none", signature=NOBODY),
    "lease-003 alg NONE": lambda theft: theft.with_(alg="NONE", signature=NOBODY),
    "lease-006 alg null": lambda theft: theft.with_(alg=None, signature=NOBODY),
    "no signature": lambda theft: theft.with_(signature=None),
    "an empty signature": lambda theft: theft.with_(signature=""),
    "a signature of zeros": lambda theft: theft.with_(signature=NOBODY),
    "lease-008 hmac with the public key as PEM": lambda theft: theft.by_hmac(PUBLIC_PEM + theft.public),
    "lease-010 hmac with the public key as text": lambda theft: theft.by_hmac(b"ssh-ed25519 " + theft.public),
    "lease-011 hmac with nothing": lambda theft: theft.by_hmac(b""),
    "lease-014 low-order key inside": lambda theft: theft.by_attacker(jwk=OKP),
    "lease-015 key inside": lambda theft: theft.by_attacker(jwk={**OKP, "x": encoded(ATTACKER.public)}),
    "lease-015 the attacker's own key id": lambda theft: theft.by_attacker(key_id=ATTACKER.key_id),
    "lease-016 address of a key": lambda theft: theft.by_attacker(jku="https://evil.test/jwks.json"),
    "lease-018 certificate inside": lambda theft: theft.by_attacker(x5c=["MIIB"]),
    "lease-019 key id leads up": lambda theft: theft.by_hmac(b"", key_id="../../../../dev/null"),
    "lease-020 key id is SQL": lambda theft: theft.by_hmac(b"x", key_id="k1' UNION SELECT 'x'--"),
    "lease-021 key id of 1 MB": lambda theft: theft.signed(key_id="A" * (1 << 20)),
    "lease-022 unknown key id": lambda theft: theft.by_attacker(key_id=encoded(bytes(32))),
    "lease-025 unknown critical extension": lambda theft: theft.signed(crit=["exp2"], exp2=1),
    "lease-026 b64 false": lambda theft: theft.signed(b64=False, crit=["b64"]),
    "lease-027 compressed": lambda theft: theft.signed(zip="DEF"),
    "lease-029 signed as something else": lambda theft: theft.with_(
        signature=encoded(theft.workspace.tasks.kernel.signer()._private.sign(theft.body(theft.good)))  # noqa: SLF001 - no signer signs without a purpose
    ),
    "lease-030 a token in a token": lambda theft: theft.signed(cty="JWT"),
    "lease-033 not yet valid": lambda theft: theft.signed(nbf=hence(hours=1)),
    "lease-034 issued in the future": lambda theft: theft.signed(issued_at=hence(hours=1), expires_at=hence(hours=1.5)),
    "lease-036 end as a number in a text": lambda theft: theft.signed(expires_at="9999999999"),
    "lease-036 end as a number": lambda theft: theft.signed(expires_at=9999999999),
    "lease-037 end as NaN": lambda theft: with_literal(theft, "expires_at", "NaN"),
    "lease-037 end as 1e308": lambda theft: with_literal(theft, "expires_at", "1e308"),
    "lease-037 end as 1e999": lambda theft: with_literal(theft, "expires_at", "1e999"),
    "lease-039 ends in ten years": lambda theft: theft.signed(expires_at=hence(days=3650)),
    "lease-041 for us and another": lambda theft: theft.signed(executor_id=["remit.file", "evil"]),
    "lease-042 for nobody": lambda theft: theft.signed(executor_id=None),
    "lease-042 for somebody else": lambda theft: theft.signed(executor_id="remit.no-effect"),
    "lease-044 name with a slash behind": lambda theft: theft.signed(executor_id="remit.file/"),
    "lease-046 without an id": lambda theft: theft.signed(lease_id=None),
    "lease-051 delegated a hundred times": lambda theft: theft.signed(depth=100),
    "lease-056 white space in the signature": lambda theft: theft.with_(signature=theft.good["signature"] + "\n"),
    "lease-057 another spelling of the signature": lambda theft: theft.with_(
        signature=respelled(theft.good["signature"])
    ),
    "lease-059 two segments": lambda theft: as_jws(theft, {"alg": "EdDSA"}, 2),
    "lease-059 three segments": lambda theft: as_jws(theft, {"alg": "EdDSA"}),
    "lease-059 four segments": lambda theft: as_jws(theft, {"alg": "EdDSA"}, 4),
    "lease-060 JSON serialisation": as_flattened_jws,
    "lease-061 a flipped bit": flipped,
    "lease-062 the signature of another lease": spliced,
    "lease-064 a look-alike letter in the capability": lambda theft: theft.signed(capability_id="FILE_DELET\u0415"),
    "lease-065 any capability": lambda theft: theft.signed(capability_id="*"),
    "lease-066 another's task": lambda theft: theft.signed(task_id="another"),
    "lease-067 no capability": lambda theft: theft.signed(capability_id=""),
    "lease-068 an unknown constraint": lambda theft: theft.signed(constraints={"max_byts": 10}),
    "a field twice": lambda theft: theft.with_().replace(b"{", b'{"task_id": "another", ', 1),
}


@pytest.fixture
def theft(workspace: Workspace, base: Path) -> Theft:
    return Theft(workspace, base)


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def attacked(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, postgres_admin_url: str
) -> Iterator[Workspace]:
    """One for all attacks: what one of them left behind would be there for the next."""
    folder = tmp_path_factory.mktemp("attacked")
    environ = {"REMIT_STATE": str(folder / "state")}
    with ExitStack() as stack:
        if request.param == "postgresql":
            environ[VARIABLE] = stack.enter_context(fresh_database(postgres_admin_url))
        variable = VARIABLE if request.param == "postgresql" else None
        yield stack.enter_context(made_workspace(folder, environ, MovableClock(), variable))


def test_it_is_an_invalid_lease_and_the_file_stays(attacked: Workspace, subtests: pytest.Subtests) -> None:
    for number, (name, attack) in enumerate(ATTACKS.items()):
        with subtests.test(name):
            theft = Theft(attacked, attacked.root.parent / "base", f"theft-{number}")
            result = theft.workspace.execute_task(theft.task, attack(theft))
            assert result.error is not None
            assert result.error.error_code == "INVALID_LEASE"
            assert theft.target.read_bytes() == CONTENT
            # lease-071, the control: nothing is used up by the attempt.
            good = theft.workspace.execute_task(theft.task, theft.with_())
            assert good.status == "SUCCESS"
            assert not theft.target.exists()


@pytest.mark.parametrize("seconds", [0, -3600])
def test_lease_070_one_that_has_expired_does_not_revive_when_the_clock_is_set_back(
    theft: Theft, clock: MovableClock, seconds: int
) -> None:
    clock.offset += timedelta(hours=2)
    expired = theft.workspace.execute_task(theft.task, theft.with_())
    assert expired.error is not None
    assert expired.error.error_code == "LEASE_EXPIRED"
    clock.offset += timedelta(seconds=seconds) - timedelta(hours=1)
    theft.workspace.issue_lease(file_task("later", "FILE_DELETE", theft.target))
    again = theft.workspace.execute_task(theft.task, theft.with_())
    assert again.error is not None
    assert again.error.error_code == "LEASE_EXPIRED"
    assert theft.target.read_bytes() == CONTENT


def test_lease_022_two_hundred_unknown_keys_cost_no_more_than_themselves(theft: Theft) -> None:
    for number in range(200):
        raw = theft.by_attacker(key_id=encoded(number.to_bytes(32, "big")))
        error = theft.workspace.execute_task(theft.task, raw).error
        assert error is not None
        assert error.error_code == "INVALID_LEASE"
    assert theft.workspace.execute_task(theft.task, theft.with_()).status == "SUCCESS"


def test_lease_023_and_047_a_retired_key_signs_nothing_new_and_a_revoked_one_is_worth_nothing(theft: Theft) -> None:
    """Our leases live an hour at most and are bound to one task: what is revoked is the key, not the lease."""
    old = theft.workspace.tasks.kernel.signer()
    theft.workspace.rotate_key("kernel")
    late = issue_lease(old, TaskManifest.parse(theft.task), "remit.file", datetime.now(UTC), timedelta(minutes=5))
    refused = theft.workspace.execute_task(theft.task, late.canonical())
    assert refused.error is not None
    assert refused.error.error_code == "INVALID_LEASE"
    theft.workspace.revoke_key(old.key_id)
    refused = theft.workspace.execute_task(theft.task, theft.with_())
    assert refused.error is not None
    assert refused.error.error_code == "INVALID_LEASE"
    assert theft.target.read_bytes() == CONTENT

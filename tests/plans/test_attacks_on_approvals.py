"""Every known way to come by an approval that nobody gave, each mapped to our envelopes, which are closed JSON.

An envelope has no algorithm, no key inside and no address of one: such a field is refused as any field too many.
Those of the list that are not for an envelope:
- lease-041, 042, 044, 051, 064 to 068: an envelope has no audience, issuer, scope or delegation; it names one plan by
  its digest, and what was allowed beyond it file by file (test_attacks.py).
- approval-009, 013 to 017, 022, 025, 027: approvals by way of a browser.
"""

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from remit.contracts.plans.outcome import PlanOutcome, PlanRefusal
from remit.contracts.plans.plan import Plan
from remit.core.canonical import canonical_bytes
from remit.core.errors import RefusedError
from remit.core.ids import render_time
from remit.crypto.keyring import load_signer
from remit.crypto.signing import Signer, pre_authentication_encoding
from tests.plans.hostile_project import HostileProject, action, plan_of

pytestmark = pytest.mark.req("PX-01", "PX-02")

Tree = dict[str, Any]
ATTACKER = Signer("protocol", Ed25519PrivateKey.from_private_bytes(b"\7" * 32))
NOBODY = "A" * 86
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
OKP = {"kty": "OKP", "crv": "Ed25519", "x": "AAAA"}


class Theft:
    """A file that an attacker wants deleted, a good envelope to start from, and what the attacker can do with it."""

    def __init__(self, hostile: HostileProject) -> None:
        self.project = hostile
        self.plan = plan_of(action("delete", "sub/ok.txt"))
        self.good: Tree = hostile.workspace.approve(self.plan).tree()
        self.protocol = load_signer(hostile.workspace.state.keys, "protocol")
        self.public = base64.b64encode(self.protocol.public)

    def with_(self, **changes: Any) -> bytes:
        """The good envelope with fields changed or added, its signature kept."""
        return json.dumps({**self.good, **changes}).encode()

    def signed(self, **changes: Any) -> bytes:
        """Signed by the protocol layer itself, over whatever stands there."""
        return self.signed_by(self.protocol, **changes)

    def by_attacker(self, **changes: Any) -> bytes:
        return self.signed_by(ATTACKER, **changes)

    def by_hmac(self, secret: bytes, **changes: Any) -> bytes:
        envelope = {**self.good, **changes}
        mac = hmac.new(secret, pre_authentication_encoding("envelope", body(envelope)), hashlib.sha512).digest()
        return json.dumps({**envelope, "signature": encoded(mac)}).encode()

    def signed_by(self, signer: Signer, **changes: Any) -> bytes:
        envelope = {**self.good, **changes}
        return json.dumps({**envelope, "signature": signer.sign("envelope", body(envelope))}).encode()

    def other_plan(self, plan: bytes) -> bytes:
        """Another plan under the same approval."""
        return self.with_(plan=Plan.parse(plan).tree())


def body(envelope: Tree) -> bytes:
    """What is signed: all but the signature, and the plan by its digest."""
    return canonical_bytes({name: value for name, value in envelope.items() if name not in {"signature", "plan"}})


def encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def hence(**time: float) -> str:
    return render_time(datetime.now(UTC) + timedelta(**time))


def respelled(signature: str) -> str:
    """Another last letter for the same bytes: the letter's low bits are beyond their end."""
    return signature[:-1] + ALPHABET[ALPHABET.index(signature[-1]) ^ 1]


def spliced(theft: Theft) -> bytes:
    other = theft.project.workspace.approve(plan_of(action("modify", "sub/ok.txt")))
    return theft.with_(signature=other.signature)


def as_jws(theft: Theft, segments: int) -> bytes:
    parts = [encoded(json.dumps(part).encode()) for part in ({"alg": "EdDSA"}, theft.good)]
    return ".".join([*parts, theft.good["signature"], "x"][:segments]).encode()


def with_literal(theft: Theft, field: str, literal: str) -> bytes:
    """A value that json.dumps would not write."""
    return theft.with_(**{field: "@@"}).replace(b'"@@"', literal.encode())


def shuffled(theft: Theft) -> bytes:
    """Two actions, approved in one order and handed in in the other."""
    first, second = action("create", "one", "a1"), action("create", "two", "a2")
    envelope = theft.project.workspace.approve(plan_of(first, second)).tree()
    envelope["plan"]["action_plan"].reverse()
    return json.dumps(envelope).encode()


ATTACKS: dict[str, Callable[[Theft], bytes]] = {
    "lease-001 alg none": lambda theft: theft.with_(alg="none", signature=NOBODY),
    "lease-006 alg null": lambda theft: theft.with_(alg=None, signature=NOBODY),
    "no signature": lambda theft: theft.with_(signature=None),
    "an empty signature": lambda theft: theft.with_(signature=""),
    "a signature of zeros": lambda theft: theft.with_(signature=NOBODY),
    "lease-008 hmac with the public key as PEM": lambda theft: theft.by_hmac(
        b"-----BEGIN PUBLIC KEY-----\n" + theft.public
    ),
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
    "lease-027 compressed": lambda theft: theft.signed(zip="DEF"),
    "lease-034 issued in the future": lambda theft: theft.signed(issued_at=hence(hours=1), expires_at=hence(hours=2)),
    "lease-036 expiry as a number": lambda theft: theft.signed(expires_at=9999999999),
    "lease-037 expiry is NaN": lambda theft: with_literal(theft, "expires_at", "NaN"),
    "lease-037 expiry is 1e308": lambda theft: with_literal(theft, "expires_at", "1e308"),
    "lease-039 ten years": lambda theft: theft.signed(expires_at=hence(days=3650)),
    "expired": lambda theft: theft.signed(issued_at=hence(hours=-2), expires_at=hence(hours=-1)),
    "ends before it begins": lambda theft: theft.signed(expires_at=hence(hours=-1)),
    "lease-046 no id": lambda theft: theft.signed(envelope_id=None),
    "lease-056 white space around the signature": lambda theft: theft.with_(signature=f" {theft.good['signature']}\n"),
    "lease-057 another spelling of the signature": lambda theft: theft.with_(
        signature=respelled(theft.good["signature"])
    ),
    "lease-059 two segments": lambda theft: as_jws(theft, 2),
    "lease-059 four segments": lambda theft: as_jws(theft, 4),
    "lease-061 a flipped bit": lambda theft: theft.with_(envelope_id=theft.good["envelope_id"][:-1] + "x"),
    "lease-062 signature of another envelope": spliced,
    "not approved": lambda theft: theft.signed(status="PENDING"),
    "a key of another role": lambda theft: theft.signed_by(
        Signer("protocol", load_signer(theft.project.workspace.state.keys, "kernel")._private)  # noqa: SLF001 - a stolen one
    ),
    "approval-002 other order": shuffled,
    "approval-006 another plan": lambda theft: theft.other_plan(plan_of(action("delete", "protected/.env"))),
    "approval-006 one byte of the plan": lambda theft: theft.other_plan(theft.plan.replace(b"hostile", b"hostilf")),
    "a plan digest to fit another plan": lambda theft: theft.with_(
        plan=Plan.parse(plan_of(action("delete", "protected/.env"))).tree(),
        plan_digest=Plan.parse(plan_of(action("delete", "protected/.env"))).digest(),
    ),
    "approvals widened": lambda theft: theft.with_(
        approvals={**theft.good["approvals"], "protected": ["protected/.env"]}
    ),
    "inputs removed": lambda theft: theft.with_(inputs=[]),
    "other settings": lambda theft: theft.with_(config_digest=f"sha256:{'0' * 64}"),
}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostileProject]:
    made = HostileProject.make(tmp_path_factory.mktemp("hostile"))
    yield made
    made.workspace.close()


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[HostileProject]:
    """For what changes keys or settings, or succeeds."""
    made = HostileProject.make(tmp_path / "hostile")
    yield made
    made.workspace.close()


@pytest.fixture(scope="module")
def theft(hostile: HostileProject) -> Theft:
    return Theft(hostile)


def test_no_attack_yields_an_approval(theft: Theft, subtests: pytest.Subtests) -> None:
    for name, attack in ATTACKS.items():
        with subtests.test(name):
            before = theft.project.world()
            outcome = apply_or_refuse(theft.project, attack(theft))
            if outcome is not None:
                assert isinstance(outcome, PlanRefusal), outcome
                assert theft.project.codes(outcome) <= {1001, 1002, 1003, 1004}
            assert theft.project.world() == before


def apply_or_refuse(hostile: HostileProject, envelope: bytes) -> PlanOutcome | PlanRefusal | None:
    try:
        return hostile.workspace.apply(envelope)
    except RefusedError:
        return None


def test_a_thousand_unknown_keys_leave_the_known_one_working(fresh: HostileProject) -> None:
    theft = Theft(fresh)
    for number in range(100):
        envelope = theft.by_attacker(key_id=encoded(hashlib.sha256(b"%d" % number).digest()))
        assert isinstance(fresh.workspace.apply(envelope), PlanRefusal)
    outcome = fresh.workspace.apply(theft.with_())
    assert isinstance(outcome, PlanOutcome)
    assert outcome.status.status == "SUCCESS"


@pytest.mark.parametrize("how", ["lease-023 retired", "lease-047 revoked"])
def test_a_key_that_was_given_up_approves_nothing_new(fresh: HostileProject, how: str) -> None:
    stolen = load_signer(fresh.workspace.state.keys, "protocol")
    theft = Theft(fresh)
    before = fresh.world()
    fresh.workspace.rotate_key("protocol", revoke="revoked" in how)
    later = hence(seconds=1)
    outcome = fresh.workspace.apply(theft.signed_by(stolen, issued_at=later, expires_at=hence(minutes=5)))
    assert isinstance(outcome, PlanRefusal)
    assert fresh.codes(outcome) == {1002}
    assert fresh.world() == before


def test_what_a_revoked_key_approved_before_is_void_too(fresh: HostileProject) -> None:
    """approval-012."""
    theft = Theft(fresh)
    before = fresh.world()
    fresh.workspace.rotate_key("protocol", revoke=True)
    outcome = fresh.workspace.apply(theft.with_())
    assert fresh.codes(outcome) == {1002}
    assert fresh.world() == before


def test_the_same_json_in_another_order_is_the_same_approval(fresh: HostileProject) -> None:
    """approval-004, approval-030: keys in another order, 1.0 for 1, spaces: the canonical form counts."""
    (fresh.root / "data.json").write_bytes(b'{"a": 1}\n')
    operation = {"type": "json_update_value", "path": "$.a", "value": 2}
    asked = {"action_id": "a1", "action_type": "FILE_MODIFY", "target": "data.json", "operation": operation}
    envelope = fresh.workspace.approve(plan_of(asked)).tree()
    turned = json.dumps(dict(reversed(envelope.items())), indent=4).replace('"value": 2', '"value": 2.0')
    assert turned != json.dumps(envelope)
    outcome = fresh.workspace.apply(turned.encode())
    assert isinstance(outcome, PlanOutcome)
    assert outcome.status.status == "SUCCESS"
    assert (fresh.root / "data.json").read_bytes() == b'{"a": 2}\n'


def test_another_form_of_the_same_letters_is_another_plan(fresh: HostileProject) -> None:
    """approval-005: é as one character, and as two."""
    composed = action("create", "sub/note") | {"operation": {"type": "write", "content": "caf\u00e9"}}
    envelope = fresh.workspace.approve(plan_of(composed)).tree()
    envelope["plan"]["action_plan"][0]["operation"]["content"] = "cafe\u0301"
    outcome = fresh.workspace.apply(json.dumps(envelope).encode())
    assert fresh.codes(outcome) == {1003}
    assert not (fresh.root / "sub/note").exists()


def test_an_approval_is_used_once(fresh: HostileProject) -> None:
    """approval-007."""
    envelope = fresh.workspace.approve(plan_of(action("delete", "sub/ok.txt"))).canonical()
    first = fresh.workspace.apply(envelope)
    (fresh.root / "sub/ok.txt").write_bytes(b"some text here\n")
    stored: list[bool] = []
    again = fresh.workspace.apply(envelope, on_stored=lambda: stored.append(True))
    assert (again.canonical(), stored) == (first.canonical(), [True])
    assert (fresh.root / "sub/ok.txt").exists()


@pytest.mark.parametrize("edit", ["sandbox: unsafe-none\n", "limits: {max_files: 1}\n"])
def test_settings_that_changed_since_void_every_approval(fresh: HostileProject, edit: str) -> None:
    """approval-028."""
    envelope = fresh.workspace.approve(plan_of(action("delete", "sub/ok.txt"))).canonical()
    with (fresh.root / "remit.yaml").open("a") as config:
        config.write(edit)
    with type(fresh.workspace).open(fresh.root, environ=fresh.workspace.environ) as later:
        outcome = later.apply(envelope)
    assert fresh.codes(outcome) == {1003}
    assert (fresh.root / "sub/ok.txt").exists()


def test_a_file_that_changed_since_voids_the_approval(fresh: HostileProject) -> None:
    envelope = fresh.workspace.approve(plan_of(action("delete", "sub/ok.txt"))).canonical()
    (fresh.root / "sub/ok.txt").write_bytes(b"somebody has worked on it\n")
    before = fresh.world()
    outcome = fresh.workspace.apply(envelope)
    assert isinstance(outcome, PlanRefusal)
    assert fresh.codes(outcome) == {1003}
    assert fresh.world() == before

"""A decision can be made again from the document that it was made by."""

import json
from typing import Any

import pytest

from remit.contracts.goals.access import AccessSnapshot
from remit.core.canonical import canonical_bytes, digest
from remit.core.errors import RefusedError
from remit.goals.access import cedar as access_engine
from remit.goals.access.cedar_schema import SCHEMA_VERSION, schema_tree
from remit.goals.access.policy import AccessPolicy, build_access_policy
from tests.goals.access.rules import ACTIONS, ALL, POLICIES, TENANTS, access, euros, question

pytestmark = pytest.mark.req("AC-06")


@pytest.mark.req("AC-13")
def test_the_document_gives_the_same_policy_again() -> None:
    policy = access()
    stored = json.loads(canonical_bytes(policy.document()))
    again = AccessPolicy.from_document(stored)
    assert again.ref == policy.ref == digest(stored)
    assert again.document() == policy.document()
    assert not again.engine_changed
    sums: list[dict[str, Any]] = [{}, euros("100.00"), euros("100.01"), {"x": []}]
    asked = [
        question(access_action=action, tenant_id=tenant, user_id=user, risk=risk, fields=fields)
        for action in (*ACTIONS, "unknown")
        for tenant, user in (("acme", "ann"), ("acme", "bob"), ("other", "ann"), ("acme", "eve"))
        for risk in ("LOW", "CRITICAL", "odd")
        for fields in sums
    ]
    answers = [policy.decide(one) for one in asked]
    assert [again.decide(one) for one in asked] == answers
    assert {answer.verdict for answer in answers} == {"ALLOWED", "DENIED", "APPROVAL_REQUIRED"}


@pytest.mark.req("AC-13")
def test_an_old_decision_is_made_again_under_the_old_policies() -> None:
    old = access().document()
    new = access(POLICIES + '@id("stop") forbid(principal, action, resource);')
    assert new.decide(question()).verdict == "DENIED"
    assert AccessPolicy.from_document(old).decide(question()).verdict == "ALLOWED"
    assert AccessPolicy.from_document(old).ref != new.ref


def test_what_a_decision_depends_on_is_in_the_digest_and_what_it_does_not_is_not() -> None:
    first = access()
    turned = build_access_policy(
        {"access.cedar": POLICIES}, {"other": ["ann"], "acme": ["bob", "ann", "ann"]}, list(reversed(ACTIONS))
    )
    assert turned.ref == first.ref
    others = [
        access(POLICIES + " "),
        access(files={"other.cedar": POLICIES}),
        access(tenants={**TENANTS, "acme": ("ann", "bob", "eve")}),
        access(actions=(*ACTIONS, "more")),
    ]
    assert len({first.ref, *(policy.ref for policy in others)}) == 5


@pytest.mark.req("AC-13")
def test_another_engine_version_is_reported_and_keeps_the_reference_of_the_document(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy = access()
    monkeypatch.setattr("remit.goals.access.policy.engine_version", lambda: "cedarpy 99.0.0")
    again = AccessPolicy.from_document(policy.document())
    assert again.engine_changed
    assert again.ref == policy.ref
    assert again.decide(question()) == policy.decide(question())
    assert access_engine.engine_version().startswith("cedarpy 4.")


def test_a_document_that_is_none_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[Any] = [
        {"more": 1},
        {"version": 2},
        {"schema_version": 2},
        {"engine": "cedarpy"},
        {"actions": ["refund", "look"]},
        {"actions": ["look", "look"]},
        {"tenants": {"acme": ["bob", "ann"]}},
        {"tenants": {"a/b": []}},
        {"files": {"access.cedar": "permit(principal, action, resource);"}},
        {"files": {"access.cedar": 7}},
        {"files": {"access.cedar": "\ud800"}},
        {"files": None},
    ]
    for change in cases:
        with subtests.test(change=change):
            with pytest.raises(RefusedError):
                AccessPolicy.from_document({**access(ALL).document(), **change})
            with pytest.raises(RefusedError):
                AccessPolicy.from_document([])


def test_no_part_of_a_document_may_lack() -> None:
    document = access(ALL).document()
    assert set(document) == set(AccessSnapshot.model_fields)
    for part in document:
        with pytest.raises(RefusedError, match="missing"):
            AccessPolicy.from_document({key: value for key, value in document.items() if key != part})


def test_a_schema_of_another_form_has_another_version() -> None:
    # A snapshot names the schema by its version only: change this digest together with the version, and keep the old.
    frozen = {1: "sha256:aeee831e4a121bcfcecaf85e3a96bdd52fcf65ee3628c8f6d99710a9fa051aeb"}
    assert frozen[SCHEMA_VERSION] == digest(schema_tree(["b", "a", "b"])) == digest(schema_tree(["a", "b"]))

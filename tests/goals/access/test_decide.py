"""Who may do what: the strictest policy counts, and every doubt is a no."""

from typing import Any, get_args

import pytest

from remit.contracts.goals.simulation import Impact
from remit.goals.access import cedar as access_engine
from remit.goals.access import policy as access_module
from remit.goals.access.cedar_schema import IMPACTS
from remit.goals.access.policy import AccessAnswer
from tests.goals.access.rules import ALL, POLICIES, TENANTS, access, euros, question

pytestmark = pytest.mark.req("AC-06")

FAILING = '@id("overflow") forbid(principal, action, resource) when { context.numbers.hasTag("n") && '
FAILING += 'context.numbers.getTag("n") * 9223372036854775807 > 0 };'


def test_each_verdict_has_its_reason_code_and_names_the_policies_that_decided() -> None:
    policy = access()
    refund = {"access_action": "refund"}
    told = [
        policy.decide(question(user_id="bob")),
        policy.decide(question(**refund)),
        policy.decide(question(**refund, fields=euros("100.01"))),
        policy.decide(question(**refund, user_id="bob")),
        policy.decide(question(risk="CRITICAL")),
    ]
    assert [(answer.verdict, answer.reason_code, answer.policies) for answer in told] == [
        ("ALLOWED", "ACCESS_ALLOWED", ("acme-looks",)),
        ("ALLOWED", "ACCESS_ALLOWED", ("ann-refunds",)),
        ("APPROVAL_REQUIRED", "ACCESS_AP_REQUIRED", ("large-refunds",)),
        ("DENIED", "ACCESS_SCOPE_VIOLATION", ()),
        ("DENIED", "ACCESS_SCOPE_VIOLATION", ("nothing-critical",)),
    ]


@pytest.mark.parametrize("order", ["abc", "acb", "bac", "bca", "cab", "cba"])
def test_the_strictest_policy_counts_in_whatever_order_they_stand(order: str) -> None:
    texts = {
        "a": '@id("plain") permit(principal, action, resource);',
        "b": '@id("asks") @verdict("approval_required") permit(principal, action, resource);',
        "c": '@id("never") forbid(principal, action == Action::"refund", resource);',
    }
    files = {f"{place}.cedar": texts[letter] for place, letter in enumerate(order)}
    policy = access(files=files)
    look, refund = policy.decide(question()), policy.decide(question(access_action="refund"))
    assert (look.verdict, look.policies) == ("APPROVAL_REQUIRED", ("asks",))
    assert (refund.verdict, refund.policies) == ("DENIED", ("never",))


def test_a_user_of_the_same_name_in_another_tenant_is_another_user() -> None:
    policy = access()
    assert policy.decide(question(access_action="refund")).verdict == "ALLOWED"
    assert policy.decide(question(access_action="refund", tenant_id="other")).verdict == "DENIED"
    assert policy.decide(question(tenant_id="other")).verdict == "DENIED"


@pytest.mark.parametrize(
    "who",
    [
        {"user_id": "eve"},
        {"tenant_id": "nobody"},
        {"tenant_id": "other", "user_id": "bob"},
        {"user_id": ""},
        {"tenant_id": "acme/ann", "user_id": ""},
        {"user_id": "acme/ann"},
    ],
)
def test_a_user_who_is_not_listed_is_denied_although_a_policy_permits_every_user(
    who: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = access(ALL)
    assert policy.decide(question()).verdict == "ALLOWED"
    monkeypatch.setattr("cedarpy.is_authorized", _must_not_be_asked)
    answer = policy.decide(question(**who))
    assert (answer.verdict, answer.why) == ("DENIED", "this user is not listed for this tenant")


def _must_not_be_asked(*_: Any) -> Any:
    raise AssertionError("who is not listed was asked about")


def test_a_forbid_that_fails_is_not_skipped() -> None:
    policy = access(ALL + FAILING)
    assert policy.decide(question(fields={"n": 0})).verdict == "ALLOWED"
    failed = policy.decide(question(fields={"n": 7}))
    assert (failed.verdict, failed.policies) == ("DENIED", ("overflow",))
    assert "could be evaluated" in failed.why
    assert "7" not in failed.why  # the engine's words quote what was asked


def test_a_permit_that_fails_beside_one_that_applies_denies_too() -> None:
    policy = access(ALL + FAILING.replace("forbid", "permit"))
    assert policy.decide(question(fields={"n": 7})).verdict == "DENIED"


def test_a_question_that_does_not_fit_the_schema_is_denied(subtests: pytest.Subtests) -> None:
    cases: list[Any] = [
        {"access_action": "unknown"},
        {"access_action": ""},
        {"risk": "low"},
        {"risk": ""},
        {"impact": "harmless"},
        {"language": 7},
        {"simulation_id": None},
        {"fields": {"x": True}},
        {"fields": {"x": 1.5}},
        {"fields": {"x": ["a"]}},
        {"fields": {"x": {"value": "1.00"}}},
        {"fields": {"x": {"value": 1, "currency": "EUR"}}},
        {"fields": {"x": {"value": "1.00001", "currency": "EUR"}}},
        {"fields": {"x": {"value": "1e3", "currency": "EUR"}}},
        {"fields": {"x": {"value": "1.0", "currency": "eur"}}},
        {"fields": {"x": {"value": "1.0", "currency": "EUR", "more": 1}}},
        {"fields": {"x": {"__entity": {"type": "User", "id": "acme/ann"}}}},
        {"fields": {"x": {"__extn": {"fn": "decimal", "arg": "1.0"}}}},
        {"fields": {"x": 2**53}},
        {"fields": {"x": "a" * 10_001}},
        {"fields": {"x": "\ud800"}},
        {"fields": {str(n): n for n in range(201)}},
        {"fields": None},
    ]
    for parts in cases:
        with subtests.test(parts=parts):
            answer = access(ALL).decide(question(**parts))
            assert (answer.verdict, answer.reason_code) == ("DENIED", "ACCESS_SCOPE_VIOLATION")


@pytest.mark.parametrize(
    "files", [{}, {"empty.cedar": ""}, {"comment.cedar": "// permit(principal, action, resource);"}]
)
def test_without_a_policy_every_user_is_denied(files: dict[str, str]) -> None:
    assert access(files=files).decide(question()).verdict == "DENIED"


class PanicException(BaseException):
    """Stands for a panic of the engine, which is no `Exception` either. No question is known to cause one."""


@pytest.mark.parametrize("problem", [RuntimeError("secret of 7"), ValueError(), KeyError("x"), PanicException("boom")])
def test_an_engine_that_fails_denies(problem: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise problem

    policy = access(ALL)
    monkeypatch.setattr("cedarpy.is_authorized", fail)
    answer = policy.decide(question())
    why = f"the policy engine failed: {type(problem).__name__}"
    assert answer == AccessAnswer("DENIED", "ACCESS_SCOPE_VIOLATION", (), why)


@pytest.mark.parametrize(
    "said",
    [
        {"decision": "Allow", "diagnostics": {"reason": [], "errors": []}},
        {"decision": "Allow", "diagnostics": {"reason": ["policy0"], "id_annotations_by_reason": {}, "errors": []}},
        {"decision": "Allow", "diagnostics": {"reason": ["policy0"], "id_annotations_by_reason": {"policy0": "x"}}},
        {"decision": "Allow", "diagnostics": {"reason": ["p"], "id_annotations_by_reason": {"p": "no"}, "errors": []}},
        {"decision": "Perhaps", "diagnostics": {}},
        {"decision": "NoDecision", "diagnostics": {}},
        {"decision": "NoDecision", "diagnostics": {"reason": ["p"], "id_annotations_by_reason": {"p": "all"}}},
        {},
    ],
)
def test_an_answer_of_the_engine_that_makes_no_sense_denies(
    said: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from cedarpy import AuthzResult  # noqa: PLC0415 - heavy, and wanted here only

    policy = access(ALL + '@id("no") forbid(principal, action == Action::"refund", resource);')
    monkeypatch.setattr("cedarpy.is_authorized", lambda *_: AuthzResult(said))
    assert policy.decide(question()).verdict == "DENIED"


def test_an_interrupt_is_not_taken_for_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> Any:
        raise KeyboardInterrupt

    policy = access(ALL)
    monkeypatch.setattr("cedarpy.is_authorized", interrupt)
    with pytest.raises(KeyboardInterrupt):
        policy.decide(question())


def test_policies_see_the_fields_by_their_kind() -> None:
    policy = access(
        """
        @id("texts") permit(principal, action == Action::"look", resource)
        when { context.texts.hasTag("country") && context.texts.getTag("country") == "DE" };
        @id("numbers") permit(principal, action == Action::"look", resource)
        when { context.numbers.hasTag("count") && context.numbers.getTag("count") <= 5 };
        @id("amounts") permit(principal, action == Action::"look", resource)
        when { context.amounts.hasTag("amount") && context.amounts.getTag("amount").currency == "EUR"
               && context.amounts.getTag("amount").value.lessThanOrEqual(decimal("99.99")) };
        @id("rest") permit(principal, action == Action::"look", resource)
        when { context.language == "de-AT" && context.impact == Impact::"read_only" && resource == Simulation::"s9" };
        """
    )
    cases: list[tuple[dict[str, Any], tuple[str, ...]]] = [
        ({"fields": {"country": "DE"}}, ("texts",)),
        ({"fields": {"country": "DE", "count": 5}}, ("numbers", "texts")),
        ({"fields": {"country": "de"}}, ()),
        ({"fields": {"country": None}}, ()),
        ({"fields": {"count": 6}}, ()),
        ({"fields": {"count": "5"}}, ()),
        ({"fields": euros("99.99")}, ("amounts",)),
        ({"fields": euros("99")}, ("amounts",)),
        ({"fields": euros("-1.0")}, ("amounts",)),
        ({"fields": euros("99.9901")}, ()),
        ({"fields": euros("99999999999999.9999")}, ()),
        ({"fields": {"amount": {"value": "1.00", "currency": "USD"}}}, ()),
        ({"language": "de-AT", "impact": "read_only", "simulation_id": "s9"}, ("rest",)),
    ]
    assert [policy.decide(question(**parts)).policies for parts, _ in cases] == [names for _, names in cases]


def test_the_schema_knows_the_impacts_of_the_catalogue() -> None:
    assert get_args(Impact) == IMPACTS


HOSTILE = [
    'a"b',
    'x"); permit(principal, action, resource); //',
    'acme/ann" || true || "',
    'User::"acme/ann"',
    "acme/ann",
    "a\nb",
    "a\0b",
    "a\\",
    "a\\u{61}",
    "?principal",
    "*",
    "аnn",
    "ann\u200b",
    "ａｎｎ",
    "Ann",
    " ann",
    "ann ",
    "\u202eann",
    "ann\ud800",
    "a" * 100_000,
    "",
    "__cedar::String",
]


def test_no_id_of_a_caller_changes_what_the_policies_mean(subtests: pytest.Subtests) -> None:
    for hostile in HOSTILE:
        with subtests.test(ascii(hostile)):
            policy = access(POLICIES.replace("principal in Tenant", "principal is User in Tenant"))
            for part in ("user_id", "tenant_id", "access_action"):
                assert policy.decide(question(**{part: hostile})).verdict == "DENIED", part
            for part in ("user_id", "tenant_id", "access_action", "simulation_id", "language"):
                refund = {"user_id": "bob", "access_action": "refund", part: hostile}
                assert policy.decide(question(**refund)).verdict == "DENIED", part
            fields = {hostile: hostile}
            assert policy.decide(question(user_id="bob", access_action="refund", fields=fields)).verdict == "DENIED"


@pytest.mark.parametrize("hostile", ['a"b', "?principal", "a\\", "аnn", 'x"); permit(principal, action, resource); //'])
def test_a_listed_user_with_an_odd_id_is_that_user_and_no_other(hostile: str) -> None:
    listed = {"acme": ("ann", hostile)}
    policy = access('@id("ann") permit(principal == User::"acme/ann", action, resource);', tenants=listed)
    assert policy.decide(question()).verdict == "ALLOWED"
    assert policy.decide(question(user_id=hostile)).verdict == "DENIED"
    escaped = hostile.replace("\\", "\\\\").replace('"', '\\"')
    own = access(f'@id("odd") permit(principal == User::"acme/{escaped}", action, resource);', tenants=listed)
    assert own.decide(question(user_id=hostile)).verdict == "ALLOWED"
    assert own.decide(question()).verdict == "DENIED"


def test_the_same_question_gets_the_same_answer_every_time() -> None:
    permits = "".join(f'@id("p{n}") permit(principal, action, resource);' for n in range(20))
    first = access(permits).decide(question())
    assert first.policies == tuple(sorted(f"p{n}" for n in range(20)))
    assert all(access(permits, tenants=TENANTS).decide(question()) == first for _ in range(5))


def test_a_question_asked_again_is_not_evaluated_again_and_a_failure_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """One dispatch asks the same several times. A number is not the same as another that is written alike."""
    asked: list[Any] = []
    real = access_engine.evaluate

    def evaluate(compiled: Any, asking: Any) -> Any:
        asked.append(asking)
        if len(asked) == 1:
            raise RuntimeError("the engine is not there yet")
        return real(compiled, asking)

    monkeypatch.setattr(access_module, "evaluate", evaluate)
    policy = access(ALL)
    assert policy.decide(question()).verdict == "DENIED"
    assert [policy.decide(question()).verdict for _ in range(3)] == ["ALLOWED"] * 3
    assert len(asked) == 2, "the failure was not kept, the answer was"
    others = [question(user_id="bob"), question(language="de"), question(fields={"n": 1}), question(fields={"n": "1"})]
    for other in others:
        policy.decide(other)
    assert len(asked) == 2 + len(others)
    for number in range(access_module.MAX_ANSWERS + 2):
        policy.decide(question(fields={"n": number}))
    assert len(policy._answers) <= access_module.MAX_ANSWERS  # noqa: SLF001

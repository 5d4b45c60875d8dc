"""Who counts as the person who made a request, and where people may approve what they requested themselves."""

import pytest

from remit.contracts.config.config import SystemConfig
from remit.core.errors import Reason, RefusedError
from remit.identity.callers import PersonCaller
from remit.identity.own_requests import (
    find_own_request_refusal,
    is_same_person,
    may_approve_own,
    require_other_person,
    require_own_plans_allowed,
)
from remit.identity.person import Person


def config(allow_own: object) -> SystemConfig:
    return SystemConfig.from_tree({"version": 1, "approvals": {"allow_own": allow_own}})


def test_people_are_matched_by_the_ids_that_the_ledger_records() -> None:
    for requester, who, same in (
        ("link:ada", "link:ada", True),
        ("os:ada", "link:ada", True),
        ("link:Ada", "oidc:ada", True),
        ("link:ada", "link:bob", False),
        ("oidc:248289761001", "link:ada", False),
        ("agent:ada", "link:ada", False),
        ("agent:link:ada", "link:ada", False),
        ("ada", "link:ada", False),
        ("link:", "os:ada", False),
    ):
        assert is_same_person(requester, Person(who, "Another Name")) is same, (requester, who)


def test_the_name_that_people_choose_themselves_changes_nothing() -> None:
    assert is_same_person("link:ada", Person("link:ada", "Bob"))
    assert not is_same_person("link:ada", Person("link:bob", "ada"))


def test_the_setting_decides_and_without_it_the_interface() -> None:
    for setting, at_terminal, allowed in (
        (None, True, True),
        (None, False, False),
        (True, True, True),
        (True, False, True),
        (False, True, False),
        (False, False, False),
    ):
        caller = PersonCaller(Person("os:ada"), "admin", at_terminal=at_terminal)
        assert may_approve_own(caller, config(setting)) is allowed
        assert (find_own_request_refusal(caller, "os:ada", config(setting), where="x") is None) is allowed
        assert find_own_request_refusal(caller, "os:bob", config(setting), where="x") is None


def test_a_caller_is_not_at_a_terminal_unless_the_command_line_says_so() -> None:
    assert not PersonCaller(Person("os:ada"), "admin").at_terminal


def test_the_refusal_says_who_can_decide_and_which_setting_allows_it() -> None:
    caller = PersonCaller(Person("link:ada"), "admin")

    with pytest.raises(RefusedError) as refused:
        require_other_person(caller, "os:ada", config(None), where="proposal 1")

    assert refused.value.reason is Reason.PERMISSION_DENIED
    assert "requested by os:ada, and you are link:ada, with the same account" in refused.value.what
    for part in ("role approver or admin", "remit people invite NAME --role approver", "approvals.allow_own to true"):
        assert part in refused.value.next_step


def test_a_plan_that_the_approver_brings_is_their_own() -> None:
    for setting in (None, True):
        require_own_plans_allowed(config(setting))
    with pytest.raises(RefusedError) as refused:
        require_own_plans_allowed(config(allow_own=False))
    assert (refused.value.reason, "remit propose PLAN" in refused.value.next_step) == (Reason.PERMISSION_DENIED, True)

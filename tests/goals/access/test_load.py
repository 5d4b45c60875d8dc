"""Which policies are taken. What is refused here would have decided nothing, or something else than it says."""

import time

import pytest

from remit.contracts.goals.access import MAX_FILE_BYTES
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.goals.access.cedar import MAX_POLICIES
from remit.goals.access.policy import find_policy_problems
from remit.goals.access.policy_text import MAX_NESTING, split_policies
from tests.goals.access.rules import ACTIONS, ALL, TENANTS, access, question

pytestmark = pytest.mark.req("AC-06")

ANY = "(principal, action, resource)"


def test_a_policy_that_does_not_hold_is_refused_by_file_and_line(subtests: pytest.Subtests) -> None:
    for text, what in [
        ("permit" + ANY, "the file ends in the middle of a policy"),
        (f"permit{ANY};", "needs an id"),
        (f"@id permit{ANY};", "needs an id"),
        (f'@id("") permit{ANY};', "needs an id"),
        (f'@id("a b") permit{ANY};', "needs an id"),
        (f'@id("x") @id("y") permit{ANY};', "duplicate annotation"),
        (f'{ALL}\n@id("all") forbid{ANY};', 'two policies have the id @id("all")'),
        (f'@id("x") @verdict("allow") permit{ANY};', "has an unknown @verdict"),
        (f'@id("x") @verdict("APPROVAL_REQUIRED") permit{ANY};', "has an unknown @verdict"),
        (f'@id("x") @verdict permit{ANY};', "has an unknown @verdict"),
        (f'@id("x") @verdict("approval_required") forbid{ANY};', "has an unknown @verdict"),
        (f'@id("x") @verdcit("approval_required") permit{ANY};', "an unknown annotation: @verdcit"),
        (f'@id("x") @Verdict("approval_required") permit{ANY};', "an unknown annotation: @Verdict"),
        ('@id("x") forbid(principal == ?principal, action, resource);', "this is a policy template"),
        ('@id("x") forbid(principal, action, resource in ?resource);', "this is a policy template"),
        ('@id("x") permit(principal, action == Action::"pay", resource);', "names the action 'pay'"),
        ('@id("x") permit(principal == Group::"g", action, resource);', "unrecognized entity type `Group`"),
        (f'@id("x") forbid{ANY} when {{ context.country == "DE" }};', "attribute `country`"),
        (f'@id("x") forbid{ANY} when {{ context.texts.getTag("c") == "DE" }};', "safety of access to tag"),
        (f'@id("x") forbid{ANY} when {{ context.risk == "HIGH" }};', "not compatible"),
        (f'@id("x") forbid{ANY} when {{ context.risk == Risk::"high" }};', "not declared as a valid eid"),
        (f'@id("x") forbid{ANY} when {{ context.impact == Impact::"IRREVERSIBLE" }};', "not declared as a valid eid"),
        (f'@id("x") forbid{ANY} when {{ principal.role == "clerk" }};', "attribute `role`"),
        ('@id("x") forbid(principal in Tenant::"acne", action, resource);', "names the tenant 'acne'"),
        ('@id("x") forbid(principal == User::"acme/anne", action, resource);', "names the user 'acme/anne'"),
        ('@id("x") forbid(principal == User::"ann", action, resource);', "names the user 'ann'"),
        (f'@id("x") permit{ANY} unless {{ principal in [User::"acme/bop"] }};', "names the user 'acme/bop'"),
        (f'@id("x") permit{ANY} when {{ if true then principal == User::"a\\u{{63}}" else false }};', "the user 'ac'"),
        ("this is no policy;", "not a Cedar policy"),
        (f'@id("x") permit{ANY} when {{ "an open string }};', "a string does not end on its line"),
        (f'@id("x") permit{ANY} when {{ "over\nlines" == "x" }};', "a string does not end on its line"),
        (f'@id("x") pеrmit{ANY};', "Cedar does not know a character"),
        (f'@id("x") permit{ANY});', "`)` closes a bracket that was not opened"),
        (f'@id("x") permit{ANY} when {{ (] ( }};', "`]` closes a bracket that was not opened"),
        (f'@id("x") permit{ANY}; // \u202e', "there is an invisible character here, U+202E"),
        (f'\ufeff@id("x") permit{ANY};', "there is an invisible character here, U+FEFF"),
        (f'@id("x") permit{ANY} when {{ context.language == "a\u200bb" }};', "U+200B"),
        (f'@id("x") permit{ANY} when {{ context has a.b }};', "a chain of attributes"),
        (f'@id("x") permit{ANY} when {{ context has "a" // x\n .b }};', "a chain of attributes"),
        (f'@id("x") permit{ANY} when {{ {"true && " * 200}true }};', "too many operators in a row"),
    ]:
        with subtests.test(text):
            with pytest.raises(RefusedError) as caught:
                access(f"// the first line\n{text}")
            assert what in caught.value.what
            assert caught.value.where.startswith("access.cedar, line ")
            assert caught.value.where != "access.cedar, line 1"
            assert caught.value.next_step


def test_one_bad_policy_refuses_all_files_and_says_what_there_is() -> None:
    files = {
        "a.cedar": ALL,
        "b/c.cedar": f'{ALL.replace("all", "more")}\n\n@id("x") permit(principal, action == Action::"p", resource);',
    }
    with pytest.raises(RefusedError, match=r"the policy x names the action 'p'.*every request is denied") as caught:
        access(files=files)
    assert caught.value.where == "b/c.cedar, line 3"
    assert "look, refund" in caught.value.next_step


def test_all_that_is_wrong_is_found_at_once_and_nothing_is_made_of_any_of_it() -> None:
    gone = '@id("x") permit(principal, action in [Action::"look", Action::"gone"], resource);'
    files = {
        "a.cedar": f"{ALL}\n{gone}\n{ALL}",
        "b.cedar": "permit(",
        "c.cedar": f'@id("y") forbid{ANY} when {{ action == Action::"left" }};',
    }
    found = find_policy_problems(files, TENANTS, ACTIONS)
    assert [(each.where, each.what.partition(",")[0]) for each in found] == [
        ("a.cedar, line 2", "the policy x names the action 'gone'"),
        ("a.cedar, line 3", 'two policies have the id @id("all")'),
        ("b.cedar, line 1", "the file ends in the middle of a policy"),
        ("c.cedar, line 1", "the policy y names the action 'left'"),
    ]
    assert "remove the action from the policy. Otherwise restore the simulation" in found[0].next_step
    assert found[0].next_step.endswith("The access actions of the catalogue: look, refund.")
    many = "".join(ALL.replace("all", f"p{n}") + "\n" for n in range(MAX_POLICIES + 1))
    assert [each.reason for each in find_policy_problems({"a.cedar": many}, TENANTS, ACTIONS)] == [Reason.TOO_LARGE]
    assert [each.what for each in find_policy_problems({"a.cedar": ALL}, {"a/b": ["c"]}, ACTIONS)] != []
    assert find_policy_problems({"a.cedar": ALL}, TENANTS, ACTIONS) == ()
    assert find_policy_problems({}, TENANTS, ()) == ()


def test_a_policy_cannot_reach_from_one_file_into_the_next() -> None:
    halves = {"a.cedar": '@id("x") permit(principal, action,', "b.cedar": "resource);"}
    with pytest.raises(RefusedError, match="in the middle of a policy"):
        access(files=halves)
    harmless = {"a.cedar": ALL + "// no line end", "b.cedar": '@id("no") forbid(principal, action, resource);'}
    assert access(files=harmless).decide(question()).policies == ("no",)


def test_without_an_action_in_the_catalogue_no_policy_fits() -> None:
    with pytest.raises(RefusedError, match="does not fit the schema") as caught:
        access(ALL, actions=())
    assert "none" in caught.value.next_step


def test_comments_and_strings_may_contain_characters_of_the_syntax() -> None:
    text = f'// ( [ {{ " ; \n@id("x") @description(")]}} ; // \\" ({"(" * 99}") permit{ANY} // " ( \n when {{ true }};'
    assert access(text).decide(question()).policies == ("x",)
    assert [found.line for found in split_policies("f", f"\r\n\r{text}\n{ALL}")] == [4, 6]


def nested(opening: str, inner: str, closing: str, depth: int) -> str:
    return f'@id("x") permit{ANY} when {{ {opening * depth}{inner}{closing * depth} }};'


@pytest.mark.parametrize("depth", [MAX_NESTING, 2_000, 50_000])
@pytest.mark.parametrize("shape", ["()", "[]", "{}"])
def test_brackets_that_would_end_the_process_never_reach_the_engine(shape: str, depth: int) -> None:
    with pytest.raises(RefusedError, match="nested more than") as caught:
        access(nested(shape[0], "true", shape[1], depth))
    assert caught.value.reason is Reason.TOO_DEEP
    hidden = nested(f"{shape[0]} // {shape[1]}\n", f'"{shape[1]}" == "x"', shape[1], depth)[: MAX_FILE_BYTES - 99]
    with pytest.raises(RefusedError, match="nested more than"):
        access(hidden)


def test_brackets_as_deep_as_they_may_be_are_read() -> None:
    assert access(nested("(", "true", ")", MAX_NESTING - 1)).decide(question()).verdict == "ALLOWED"


def test_sizes_are_bounded() -> None:
    one = f'@id("x") permit{ANY} when {{ ["{"a" * 16_384}"].contains("b") }};'
    with pytest.raises(RefusedError, match="the policy has more than 16 KiB"):
        access(one)
    with pytest.raises(RefusedError, match="at most 262144"):
        access("/" * (MAX_FILE_BYTES + 1))
    with pytest.raises(RefusedError, match="256 KiB"):
        access("//" + "é" * (MAX_FILE_BYTES // 2))
    with pytest.raises(RefusedError, match="1 MiB together"):
        access(files={f"{n}.cedar": "/" * MAX_FILE_BYTES for n in range(5)})
    with pytest.raises(RefusedError, match="at most 100"):
        access(files={f"{n}.cedar": "" for n in range(101)})
    with pytest.raises(RefusedError, match=f"at most {MAX_POLICIES} are allowed"):
        access("".join(ALL.replace("all", f"p{n}") + "\n" for n in range(MAX_POLICIES + 1)))
    with pytest.raises(RefusedError, match="at most 500"):
        access(actions=[f"a{n}" for n in range(501)])


def test_the_worst_text_is_refused_in_no_time(subtests: pytest.Subtests) -> None:
    for unit in ["(", "(]", '"\\', "has a . ", "/", "a", "a;", "a;\n", '""', "\n", "if a then "]:
        with subtests.test(unit):
            begin = time.process_time()
            with pytest.raises(RefusedError):
                access(f"x {unit * (200_000 // len(unit))}")
            assert time.process_time() - begin < 2


def test_a_tenant_whose_users_could_be_taken_for_those_of_another_is_refused() -> None:
    with pytest.raises(RefusedError, match="may not contain a slash"):
        access(ALL, tenants={"a/b": ("c",), "a": ("b/c",)})
    with_slash = access('@id("x") permit(principal == User::"a/b/c", action, resource);', tenants={"a": ("b/c",)})
    assert with_slash.decide(question(tenant_id="a", user_id="b/c")).verdict == "ALLOWED"


def test_an_engine_that_fails_while_loading_is_an_error_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError("secret of ann")

    monkeypatch.setattr("cedarpy.validate_policies", fail)
    with pytest.raises(EnvironmentFailureError, match="the policy engine failed: MemoryError") as caught:
        access(ALL)
    assert "ann" not in str(caught.value)

"""The order of a plan's actions: the same every time, needs first, and cycles named."""

import itertools
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.core.errors import Reason, RefusedError
from remit.plans.policy.dependencies import levels, needs_of, order_actions
from tests.plans.policy.plans import create, delete, modify, plan, rename


def order(*actions: dict[str, Any]) -> str:
    built = plan(*actions).action_plan
    return " ".join(built[index].action_id for index in order_actions(built))


def refusal(*actions: dict[str, Any]) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        order_actions(plan(*actions).action_plan)
    assert caught.value.reason is Reason.DEPENDENCY_INVALID
    assert caught.value.next_step
    return caught.value


@pytest.mark.req("PX-08")
def test_the_order_is_that_of_the_plan_with_needs_first(subtests: pytest.Subtests) -> None:
    for actions, expected in [
        ([create("a", "1"), create("b", "2"), create("c", "3")], "a b c"),
        ([create("a", "1", "c"), create("b", "2"), create("c", "3")], "b c a"),
        ([create("a", "1", "c"), create("b", "2", "a"), create("c", "3")], "c a b"),
        ([create("a", "1", "b", "b"), create("b", "2")], "b a"),
        ([create("z", "1"), create("y", "2", "z"), create("x", "3", "z")], "z y x"),
        # The same file: as the plan has it, also if the first one has to wait for another.
        ([modify("a", "f", "c"), modify("b", "f"), create("c", "g")], "c a b"),
        # ... unless the plan says the opposite.
        ([modify("a", "f", "b"), create("b", "f")], "b a"),
        ([modify("a", "f"), rename("b", "f", "g"), modify("c", "g"), create("d", "f")], "a b c d"),
        # Another spelling of the same file.
        ([modify("a", "d/f", "c"), modify("b", "./d//f"), create("c", "g")], "c a b"),
        # Both rules at once: a before b, c before d, unless that closes a circle.
        ([modify("a", "x", "d"), modify("b", "x"), modify("c", "y", "b"), modify("d", "y")], "d a b c"),
    ]:
        with subtests.test(expected):
            assert order(*actions) == expected


def test_implied_needs_are_listed_with_the_explicit_ones() -> None:
    built = plan(modify("a", "f"), modify("b", "f"), rename("c", "f", "g", "a"), delete("d", "g"), create("e", "h"))
    assert needs_of(built.action_plan) == {0: (), 1: (0,), 2: (0, 1), 3: (2,), 4: ()}


@pytest.mark.req("PX-08")
def test_an_unknown_id_is_named() -> None:
    refused = refusal(create("a", "1"), create("b", "2", "a", "nobody"))
    assert "'b' depends on 'nobody'" in refused.what


@pytest.mark.req("PX-08")
@pytest.mark.parametrize(
    "actions, circle",
    [
        ([create("a", "1", "a")], "a -> a"),
        ([create("a", "1", "b"), create("b", "2", "a")], "a -> b -> a"),
        ([create("a", "1", "c"), create("b", "2", "a"), create("c", "3", "b")], "a -> c -> b -> a"),
        ([create("x", "0", "a"), create("a", "1", "b"), create("b", "2", "a")], "a -> b -> a"),
        ([create("a", "1", "b"), create("b", "2", "c"), create("c", "3", "a", "b")], "a -> b -> c -> a"),
        ([create("a", "1", "b", "c"), create("b", "2", "c"), create("c", "3", "a")], "a -> c -> a"),
        ([create("free", "0"), create("a", "1", "free", "b"), create("b", "2", "a")], "a -> b -> a"),
    ],
)
def test_a_circle_is_named_from_its_first_action_on(actions: list[dict[str, Any]], circle: str) -> None:
    assert refusal(*actions).what.endswith(f": {circle}")


@pytest.mark.req("PX-08")
def test_levels_hold_what_may_run_at_once() -> None:
    built = plan(
        create("a", "1"), create("b", "2"), create("c", "3", "a"), modify("d", "1"), create("e", "4", "c", "b")
    ).action_plan
    assert levels(order_actions(built), needs_of(built)) == [[0, 1], [2, 3], [4]]
    assert levels((), {}) == []


NAMES = "abcdefgh"


@st.composite
def graphs(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Any plan of up to eight actions on few files, with any dependencies."""
    count = draw(st.integers(1, len(NAMES)))
    some = st.lists(st.sampled_from(NAMES[:count]), max_size=2)
    files = st.sampled_from(["f", "./f", "g", "d/h"])
    return [
        rename(name, draw(files), "other", *draw(some))
        if draw(st.booleans())
        else modify(name, draw(files), *draw(some))
        for name in NAMES[:count]
    ]


@pytest.mark.req("PX-08", "PX-31")
@given(graphs())
def test_every_plan_is_refused_by_name_or_has_one_order_that_keeps_its_needs(actions: list[dict[str, Any]]) -> None:
    built = plan(*actions).action_plan
    try:
        found = order_actions(built)
    except RefusedError as problem:
        circle = problem.what.split(": ")[1].split(" -> ")
        by_id = {action["action_id"]: action for action in actions}
        for here, there in itertools.pairwise(circle):
            assert there in by_id[here]["depends_on"]
        return
    place = {index: number for number, index in enumerate(found)}
    needs = needs_of(built)
    assert sorted(found) == list(range(len(built)))
    assert all(place[needed] < place[index] for index, some in needs.items() for needed in some)
    grouped = levels(found, needs)
    for group in grouped:
        touched = [path for index in group for path in _touched(actions[index])]
        assert len(touched) == len(set(touched)), "two actions on one file are never at work at once"
    assert sorted(index for group in grouped for index in group) == sorted(found)


def _touched(action: dict[str, Any]) -> set[str]:
    new = action["operation"].get("new_path")
    return {action["target"].removeprefix("./")} | ({new} if new else set())


def test_the_largest_plans_are_ordered_in_a_moment() -> None:
    names = [f"a{number}" for number in range(1000)]
    one_file = plan(*[modify(name, "f") for name in names]).action_plan
    dense = plan(*[create(name, name, *names[:number][-300:]) for number, name in enumerate(names)]).action_plan
    backwards = plan(
        *[modify(name, "f", *names[number + 1 : number + 2]) for number, name in enumerate(names)]
    ).action_plan
    start = time.process_time()
    assert order_actions(one_file) == order_actions(dense) == tuple(range(1000))
    assert order_actions(backwards) == tuple(reversed(range(1000)))
    assert time.process_time() - start < 5

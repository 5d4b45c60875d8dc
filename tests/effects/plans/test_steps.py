"""What host and sandboxed process agree on about a plan: waves, states, notes, and the way it crosses between them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.effects.plans.steps import (
    MAX_WAVE_BYTES,
    MAX_WAVE_STEPS,
    Move,
    PlanStep,
    Result,
    State,
    StepPlan,
    StepProgress,
    aside_name,
    encode_plan,
    final_states,
    make_waves,
    note_partial,
    note_undo,
    note_undone,
    note_wave,
    parse_plan,
    part_name,
    read_progress,
    step_of,
)
from remit.execution.protected_paths import PART_NAME

OLD = State("sha256:" + "0" * 64, 3, 0o644)
NEW = State("sha256:" + "1" * 64, 5, 0o755)


def step(number: int, path: int, move: Move = "modify", new_path: int | None = None, **more: Any) -> PlanStep:
    return PlanStep(number, f"a{number}", "FILE_MODIFY", move, path, new_path, **more)


paths = st.lists(st.tuples(st.integers(0, 5), st.none() | st.integers(6, 9)), max_size=30)


@pytest.mark.req("PX-28")
@given(paths)
def test_waves_hold_every_step_once_in_order_and_no_path_twice(named: list[tuple[int, int | None]]) -> None:
    steps = [step(number, path, new_path=new) for number, (path, new) in enumerate(named)]
    waves = make_waves(steps, {})
    assert [number for wave in waves for number in wave] == list(range(len(steps)))
    for wave in waves:
        touched = [path for number in wave for path in named[number] if path is not None]
        assert len(touched) == len(set(touched))


def test_different_files_are_one_wave_and_a_second_edit_of_a_file_begins_another() -> None:
    assert make_waves([step(0, 0), step(1, 1), step(2, 2)], {}) == ((0, 1, 2),)
    assert make_waves([step(0, 0), step(1, 1), step(2, 0)], {}) == ((0, 1), (2,))
    assert make_waves([step(0, 0, "rename", 1), step(1, 1)], {}) == ((0,), (1,))


def test_a_wave_is_bounded_in_steps_and_in_bytes() -> None:
    many = [step(number, number) for number in range(MAX_WAVE_STEPS + 1)]
    assert [len(wave) for wave in make_waves(many, {})] == [MAX_WAVE_STEPS, 1]
    large = dict.fromkeys(range(3), MAX_WAVE_BYTES // 2 + 1)
    assert make_waves(many[:3], large) == ((0,), (1,), (2,))


def test_levels_are_waves_of_their_own() -> None:
    steps = [step(0, 0), step(1, 1), step(2, 2)]
    assert make_waves(steps, {}, [[0, 2], [1]]) == ((0, 2), (1,))


def test_states_follow_the_steps_that_were_done() -> None:
    plan = StepPlan(
        "ab" * 10,
        ("a", "b", "c", "d"),
        (
            step(0, 0, before=OLD, after=NEW),
            step(1, 1, "rename", 2, before=OLD, after=OLD),
            step(2, 3, "delete", before=OLD),
        ),
        ((0, 1, 2),),
    )
    first = {0: OLD, 1: OLD, 2: None, 3: OLD}
    assert final_states(plan, first) == {0: NEW, 1: None, 2: OLD, 3: None}
    assert final_states(plan, first, frozenset({1})) == {0: OLD, 1: None, 2: OLD, 3: OLD}


def test_a_plan_crosses_unchanged() -> None:
    plan = StepPlan(
        "cd" * 10,
        ("ä", "b"),
        (
            step(0, 0, operation={"type": "write", "content": "\ud7ff\n"}, needs=(1, 2), before=OLD, after=NEW),
            step(1, 1, "create", problem={"reason": "file_conflict"}, metadata={"mode": 0o600}, source="x"),
        ),
        ((0,), (1,)),
        stop_on_error=False,
        rules=({"type": "file_exists", "path": "b"},),
    )
    assert parse_plan(encode_plan(plan)) == plan
    assert [step_of(json.loads(json.dumps(one))) for one in plan.steps] == list(plan.steps)


def test_alike_means_bytes_and_permissions_and_not_absence() -> None:
    assert OLD.is_alike(OLD._replace(size=4))
    assert not OLD.is_alike(OLD._replace(mode=0o600))
    assert not OLD.is_alike(NEW)
    assert not OLD.is_alike(None)


def test_notes_are_read_back_the_latest_of_each_kind() -> None:
    failed = Result(1, "failed", "t0", "t1", {"reason": "file_missing", "what": "x", "where": "", "next_step": ""})
    assert read_progress([]) == StepProgress()
    notes = [note_wave(1, []), note_wave(2, [3]), note_undo("CANCELLED", [failed]), note_undone(1)]
    progress = read_progress(notes)
    assert (progress.wave, progress.not_done, progress.undone) == (2, frozenset({3}), 1)
    assert (progress.verdict, progress.status, progress.results) == ("back", "CANCELLED", (failed,))
    kept = read_progress([note_partial([0, 2], [failed])])
    assert (kept.verdict, kept.status, kept.kept) == ("keep", "PARTIAL", frozenset({0, 2}))


def test_names_of_temporary_files_are_distinct_and_reserved() -> None:
    names = {part_name("0" * 20, 7), aside_name("0" * 20, 7), part_name("0" * 20, 999), aside_name("0" * 20, 999)}
    assert len(names) == 4
    assert all(PART_NAME.fullmatch(name) for name in names)

"""A plan looked at before anything is done: states, diffs and problems, each step over what those before it made."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from remit.effects.plans import entry_full as rich
from remit.effects.plans import simulate
from remit.effects.plans.steps import final_states
from tests.effects.plans.plan_project import (
    PlanPlace,
    contents,
    create,
    delete,
    edit,
    rename,
    replace,
    state,
    tree,
)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[PlanPlace]:
    root = tmp_path / "project"
    root.mkdir()
    with ExitStack() as stack:
        yield PlanPlace(root, stack)


def see(place: PlanPlace, *actions: Any, **flags: Any) -> dict[int, Any]:
    before = tree(place.root)
    seen = place.simulate(place.draft(*actions, **flags))
    assert tree(place.root) == before, "nothing is touched"
    return dict(seen)


def reasons(seen: dict[int, Any]) -> list[str | None]:
    return [frame["problem"]["reason"] if "problem" in frame else None for _, frame in sorted(seen.items())]


def test_each_move_is_seen_with_its_states_and_a_sentence(place: PlanPlace) -> None:
    place.file("a", "one\n", 0o640)
    place.file("b", "two\n")
    place.file("c", "three\n", 0o755)
    seen = see(place, edit("a", "one", "1"), delete("b"), rename("c", "sub/d"), create("new/e", "five\n"))
    assert [(seen[n]["before"], seen[n]["after"]) for n in range(4)] == [
        (state("one\n", 0o640), state("1\n", 0o640)),
        (state("two\n"), None),
        (state("three\n", 0o755), state("three\n", 0o755)),
        (None, state("five\n")),
    ]
    assert [seen[n]["summary"] for n in range(4)] == [
        "Replaced 1 occurrence",
        "File deleted",
        "File renamed to sub/d",
        "File created (5 bytes)",
    ]
    assert not any(seen[n]["unchanged"] or "problem" in seen[n] for n in range(4))


@pytest.mark.req("PX-08")
def test_a_step_sees_what_the_steps_before_it_made(place: PlanPlace) -> None:
    place.file("a", "1\n")
    place.file("b", "b\n")
    actions = (
        create("n", "x1\n"),
        edit("n", "x1", "x2"),
        rename("a", "c"),
        edit("c", "1", "2"),
        delete("b"),
        create("b", "new b\n"),
        rename("n", "a"),
    )
    seen = see(place, *actions)
    assert reasons(seen) == [None] * 7
    assert seen[1]["before"] == state("x1\n")
    assert seen[3]["after"] == state("2\n")
    plan = place.plan(*actions)
    place.run(plan)
    expected = final_states(plan, {})
    assert contents(place.root) == {"a": (0o644, b"x2\n"), "b": (0o644, b"new b\n"), "c": (0o644, b"2\n")}
    assert {plan.paths[path] for path, end in expected.items() if end is not None} == {"a", "b", "c"}
    assert expected[plan.paths.index("a")] == state("x2\n"), "what was previewed is what came about"


@pytest.mark.req("PX-34")
@pytest.mark.parametrize(
    "actions, reason",
    [
        ([replace("missing", "y")], "file_missing"),
        ([delete("no/folder")], "file_missing"),
        ([rename("missing", "b")], "file_missing"),
        ([create("a", "y")], "file_conflict"),
        ([rename("a", "b")], "file_conflict"),
        ([rename("a", "a")], "file_conflict"),
        ([edit("a", "not in it", "y")], "edit_no_match"),
        ([replace("a", "y", expected_before="sha256:" + "0" * 64)], "hash_mismatch"),
        ([replace("a", "y", expected_after="sha256:" + "0" * 64)], "hash_mismatch"),
        ([delete("a", expected_after="sha256:" + "0" * 64)], "hash_mismatch"),
        ([create("c", "y", expected_before="sha256:" + "0" * 64)], "hash_mismatch"),
        ([replace("link", "y")], "path_refused"),
        ([delete("folder")], "path_refused"),
        ([replace("twice", "y")], "path_refused"),
        ([replace("large", "y")], "limit_exceeded"),
        ([create("c", "y" * 2_000)], "limit_exceeded"),
        ([replace("special", "y")], "permission_denied"),
        ([delete("special")], "permission_denied"),
    ],
)
def test_what_would_stop_a_step_is_its_problem(place: PlanPlace, actions: list[Any], reason: str) -> None:
    place.file("a", "x")
    place.file("b", "x")
    place.file("folder/x")
    place.file("large", "x" * 1_001)
    place.file("special", "x").chmod(0o4755)
    (place.root / "link").symlink_to("a")
    (place.root / "twice").hardlink_to(place.file("once"))
    seen = see(place, *actions, create("other", "y"), max_file_bytes=1_000)
    assert reasons(seen) == [reason, None], "and the other steps are looked at all the same"
    problem = seen[0]["problem"]
    assert problem["what"]
    assert problem["where"] in {actions[0]["path"], actions[0].get("new_path")}
    assert problem["next_step"]


def test_a_set_id_file_may_still_be_renamed_but_not_be_changed_afterwards(place: PlanPlace) -> None:
    place.file("s", "x").chmod(0o2755)
    assert reasons(see(place, rename("s", "t"), edit("t", "x", "y"))) == [None, "permission_denied"]


def test_a_step_that_needs_one_with_a_problem_has_one_too(place: PlanPlace) -> None:
    place.file("a", "x")
    seen = see(place, replace("missing", "y"), replace("a", "y", needs=[0]), create("c", "y", needs=[1]))
    assert reasons(seen) == ["file_missing", "dependency_failed", "dependency_failed"]
    assert "a001" in seen[1]["problem"]["what"]
    assert seen[1]["before"] == state("x"), "what is there is told all the same"


@pytest.mark.parametrize("more", [b"", b"x" * 100])
def test_a_file_that_is_written_to_while_it_is_read_is_not_believed(
    place: PlanPlace, monkeypatch: pytest.MonkeyPatch, more: bytes
) -> None:
    file = place.file("a", "x" * 100)
    draft = place.draft(replace("a", "y"))
    real = os.pread

    def meddled(descriptor: int, size: int, offset: int) -> bytes:
        if os.fstat(descriptor).st_ino == file.stat().st_ino and offset == 0:
            file.write_bytes(b"z" * 100 + more)
        return real(descriptor, size, offset)

    monkeypatch.setattr(os, "pread", meddled)
    assert reasons(dict(place.simulate(draft))) == ["hash_mismatch"]


def test_a_failed_step_leaves_the_tree_to_the_next_one_as_it_was(place: PlanPlace) -> None:
    place.file("a", "x")
    wrong = "sha256:" + "0" * 64
    seen = see(place, replace("a", "y", expected_after=wrong), edit("a", "x", "z"))
    assert reasons(seen) == ["hash_mismatch", None]
    assert seen[1]["before"] == state("x")


@pytest.mark.req("PX-34")
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_path_cannot_be_a_file_and_a_folder_in_one_plan(place: PlanPlace, order: tuple[int, int]) -> None:
    place.file("x", "file")
    actions = [delete("x"), create("x/y", "below")]
    assert "path_refused" in reasons(see(place, *(actions[n] for n in order)))
    actions = [create("new", "file"), create("new/y", "below")]
    assert reasons(see(place, *(actions[n] for n in order))) == ["path_refused"] * 2


def test_a_change_to_the_same_bytes_and_mode_is_unchanged(place: PlanPlace) -> None:
    place.file("a", "x")
    place.file("b", "x", 0o755)
    seen = see(place, replace("a", "x"), replace("b", "x"), keep_permissions=False)
    assert [seen[n]["unchanged"] for n in range(2)] == [True, False], "the mode would change"


# --- diffs -----------------------------------------------------------------------------------------------------------


def test_a_summary_counts_lines_and_shows_the_beginning(place: PlanPlace) -> None:
    place.file("a", "1\n2\n3\n")
    diff = see(place, edit("a", "2", "two\nzwei"), diffs="summary")[0]["diff"]
    assert (diff["added"], diff["removed"], diff["left_out"]) == (2, 1, 0)
    assert "-2\n+two\n+zwei\n" in diff["preview"]
    assert not [frame for frame in place.frames if frame["phase"] == "diff"]


def test_no_diff_is_made_where_none_is_wanted(place: PlanPlace) -> None:
    place.file("a", "1\n")
    seen = see(place, edit("a", "1", "2"), create("b", "b"), rename("b", "c"), delete("c"))
    assert all(frame["diff"] == {"added": 0, "removed": 0, "preview": "", "left_out": 0} for frame in seen.values())


def test_a_full_diff_comes_in_pieces_and_tells_modes_names_and_missing_files(
    place: PlanPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulate, "MAX_PIECE", 10)
    place.file("a", "1\n", 0o755)
    see(
        place,
        edit("a", "1", "2"),
        create("b", "b\n"),
        delete("b"),
        rename("a", "c"),
        diffs="full",
        keep_permissions=False,
    )
    texts = ["".join(f["text"] for f in place.frames if f["number"] == n and f["phase"] == "diff") for n in range(4)]
    assert texts[0] == "old mode 100755\nnew mode 100644\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+2\n"
    assert texts[1] == "--- /dev/null\n+++ b/b\n@@ -0,0 +1 @@\n+b\n"
    assert texts[2] == "--- a/b\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n"
    assert texts[3] == "rename from a\nrename to c\n"
    assert all(len(frame["text"]) <= 10 for frame in place.frames if frame["phase"] == "diff")


def test_past_the_bound_of_a_plan_a_diff_is_counted_and_not_sent(
    place: PlanPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulate, "MAX_DIFFS", 60)
    seen = see(place, create("a", "a\n"), create("b", "b\n"), create("c", "c\n"), diffs="full")
    assert [seen[n]["diff"]["left_out"] for n in range(3)] == [0, 4, 4]
    assert {frame["number"] for frame in place.frames if frame["phase"] == "diff"} == {0}


# --- what calls for an approval --------------------------------------------------------------------------------------


def rules(frame: Any) -> set[str]:
    return {finding["rule"] for finding in frame["findings"]}


@pytest.mark.req("PX-24")
def test_findings_come_with_the_step_that_brings_them(place: PlanPlace) -> None:
    place.file("a.txt", "x\n")
    key = "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIB\n"
    seen = see(place, create("run.sh", "ls\n"), create("b.json", "{"), edit("a.txt", "x", key))
    assert [rules(seen[n]) for n in range(3)] == [{"executable"}, {"syntax"}, {"credential"}]
    assert set(seen[0]["findings"][0]) == {"rule", "where", "what"}


@pytest.mark.req("PX-24")
def test_syntax_is_asked_of_the_last_state_only(place: PlanPlace) -> None:
    seen = see(place, create("a.json", "{"), edit("a.json", "{", "{}"))
    assert [rules(seen[n]) for n in range(2)] == [set(), set()]
    seen = see(place, create("a.json", "{}"), edit("a.json", "}", ""))
    assert [rules(seen[n]) for n in range(2)] == [set(), {"syntax"}]


@pytest.mark.req("PX-24")
def test_a_name_that_makes_a_program_of_a_text_is_found(place: PlanPlace) -> None:
    place.file("a.txt", "rm -r x\n")
    place.file("b.sh", "ls\n")
    seen = see(place, rename("a.txt", "a.sh"), rename("b.sh", "c.sh"), create("d.txt", "{"), rename("d.txt", "d.json"))
    assert [rules(seen[n]) for n in range(4)] == [{"executable"}, set(), set(), {"syntax"}]


# --- the larger zygote -----------------------------------------------------------------------------------------------


@pytest.mark.req("PX-13")
def test_a_schema_update_says_what_the_specification_shows(place: PlanPlace) -> None:
    place.file("s.json", '{"type": "object", "properties": {}}\n')
    operation = {"type": "json_add_property", "path": "$.properties", "key": "new_field", "value": {"type": "string"}}
    action = {"action_type": "SCHEMA_UPDATE", "path": "s.json", "operation": operation}
    draft = place.draft(action)
    seen = place.simulate(draft, rich.SIMULATE)
    assert seen[0]["summary"] == "Schema updated: Property 'new_field' added successfully"
    broken = {**action, "operation": {**operation, "path": "$", "key": "minimum", "value": "x"}}
    assert place.simulate(place.draft(broken), rich.SIMULATE)[0]["problem"]["reason"] == "schema_invalid"


def test_content_is_let_go_when_no_later_step_needs_it(place: PlanPlace) -> None:
    """A hundred files of a megabyte are not held at once."""
    import tracemalloc  # noqa: PLC0415

    for number in range(40):
        place.file(f"f{number}", "x\n" * (1 << 19))
    draft = place.draft(*(edit(f"f{number}", "x", "y", count=1) for number in range(40)))
    steps = [s._replace(operation={**s.operation, "count": 1}) for s in draft.steps]
    tracemalloc.start()
    place.simulate(draft._replace(steps=tuple(steps)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 << 20

"""The output of `remit run` and `remit apply`: cut diffs, skipped actions, and plans that were undone."""

import re
from pathlib import Path

from tests.cli.conftest import Remit
from tests.cli.test_plan_commands import BEFORE, applied, create, project, put, update

__all__ = ["project"]


def test_the_lines_that_are_not_shown_are_counted_with_the_place_where_they_are(remit: Remit, project: Path) -> None:
    long = create("a.txt")
    long["operation"]["content"] = "line\n" * 60
    told = applied(remit, put(project, long, update(), create("z.txt")))
    assert told.code == 0, told
    last = re.search(r"\n +and (\d+) more lines of the diffs of 2 files, see (\S+)\n", told.out)
    assert last is not None, told.out
    assert (project / last[2]).is_file()
    assert int(last[1]) > 5
    short = applied(remit, put(project, update(7)))
    assert "more line" not in short.out


def test_skipped_actions_are_named_in_quotes(remit: Remit, project: Path) -> None:
    wrong = {**update(path="$.missing"), "action_id": "bad"}
    then = {**create("b.txt"), "action_id": "after", "depends_on": ["bad"]}
    last = {**create("c.txt"), "action_id": "last", "depends_on": ["after"]}
    plan = put(project, wrong, then, last, create("d.txt"), execution_instructions={"stop_on_error": False})
    told = remit("run", plan, "--even-if-it-fails", "--yes")
    assert '  skipped   "after": its dependency "bad" failed\n' in told.out, told.out
    assert '  skipped   "last": its dependency "after" was skipped\n' in told.out


def test_a_plan_that_was_undone_does_not_look_like_one_that_was_done(remit: Remit, project: Path) -> None:
    rule = {"type": "json_path", "path": "settings.json", "expression": "$.retries", "expected": 9}
    told = remit("run", put(project, update(), validation_rules=[rule]), "--even-if-it-fails", "--yes")
    assert (project / "settings.json").read_text() == BEFORE
    assert "ROLLED_BACK  plan-1: 1 of 1 action done, then undone\n" in told.out, told.out

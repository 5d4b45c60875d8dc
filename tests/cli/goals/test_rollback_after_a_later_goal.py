"""`remit ask --undo` of a goal whose file a later goal changed: the refusal names that goal, and commands that work."""

import re
import shlex
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from remit.cli import main
from tests.goals.goal_office import ARCHIVE, SIMULATIONS, UNDO_ARCHIVE, Office

MORE: dict[str, Any] = {
    **ARCHIVE,
    "id": "append-limit",
    "title": "Append to the limit",
    "fields": {"more": {"type": "identifier", "question": "What?"}},
    "rollback": "undo-limit",
    "phrases": {"en": ["append {more} to the limit"]},
    "binding": {
        "type": "plan",
        "template": {
            "action_plan": [
                {
                    "action_id": "append",
                    "action_type": "FILE_MODIFY",
                    "target": "notes/one.txt",
                    "operation": {"type": "line_insert", "line_number": 1, "content": "{more}"},
                }
            ]
        },
    },
}
UNDO = {**UNDO_ARCHIVE, "id": "undo-limit", "rollback": "append-limit"}


def test_the_refusal_names_the_later_goal_and_the_commands_in_it_work(tmp_path: Path) -> None:
    office = Office(tmp_path, simulations=(*SIMULATIONS, MORE, UNDO))
    file = office.root / "notes/one.txt"
    before = file.read_text()

    def run(*words: str) -> Result:
        return CliRunner().invoke(main, [*words, "-C", str(office.root)], env=office.environ)

    for name in ("first", "second"):
        assert office.done(f"append {name} to the limit", correlation_id=name).outcome.reason_code.endswith("SUCCEEDED")
    refused = run("ask", "--undo", "first", "--tenant", "acme", "--confirm", "yes")
    assert refused.exit_code == 1, refused.output
    assert "--checkpoint" not in refused.output
    assert "The later goal is second." in refused.output
    command = re.search(r"remit (rollback \S+ --force)", refused.output)
    assert command is not None

    assert run("ask", "--undo", "second", "--tenant", "acme", "--confirm", "yes").exit_code == 0
    assert run("ask", "--undo", "first", "--tenant", "acme", "--confirm", "yes").exit_code == 0
    assert file.read_text() == before

    assert office.done("append third to the limit", correlation_id="third").outcome.reason_code.endswith("SUCCEEDED")
    file.write_text("by hand\n")
    by_hand = run("ask", "--undo", "third", "--tenant", "acme", "--confirm", "yes")
    assert "The later goal" not in by_hand.output
    command = re.search(r"remit (rollback \S+ --force)", by_hand.output)
    assert command is not None
    assert run(*shlex.split(command[1])).exit_code == 0
    assert file.read_text() == before
    office.close()

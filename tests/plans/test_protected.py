"""Files that need an approval of their own, content that does, and what no approval helps with."""

import os
from typing import Any

import pytest

from remit.authority.envelope import issue_envelope
from remit.contracts.plans.plan import Plan
from remit.core.errors import Reason, RefusedError
from remit.crypto.keyring import load_signer
from remit.plans.policy.required_approvals import NO_APPROVALS
from tests.plans.project import Project, action, create, delete, plan_of, ran, refused, rename, replace

PROTECTED = [".env", "pyproject.toml", "deep/.env.local", "agent/agent_rules.md", ".git/config", "secrets.yaml", ".ENV"]
RUNS_OR_INSTRUCTS = [
    ".github/workflows/ci.toml",
    "Makefile",
    "sub/Cargo.toml",
    "uv.lock",
    ".husky/pre-push",
    ".vscode/tasks.toml",
    "CLAUDE.md",
    "deep/agents.md",
    ".claude/rules.md",
    "tls.key",
]
NEVER = ["agent_outputs/x.txt", "agent_logs/executor/x", "remit.yaml", "sub/remit.yaml", "Agent_Outputs/reports/x"]


@pytest.mark.req("PX-06", "PX-34", "PX-46")
@pytest.mark.parametrize("path", [*PROTECTED, *RUNS_OR_INSTRUCTS])
def test_a_protected_file_needs_an_approval_by_name(project: Project, path: str) -> None:
    content = "name = 1\n"
    plan = plan_of(create("a", path, content))
    document = project.workspace.preview(plan).document
    assert (document.status, document.needs.protected, document.risk) == ("NEEDS_APPROVAL", (path,), "HIGH")
    with pytest.raises(RefusedError) as caught:
        project.approve(plan)
    assert caught.value.reason is Reason.PROTECTED
    assert not (project.root / path).exists()
    envelope = project.approve(plan, protected=[path])
    assert ran(project.workspace.apply(envelope.canonical())).status.status == "SUCCESS"
    assert project.read(path) == content


OWN_ROOTS = ["agent_outputs", "agent_outputs/reports", "agent_logs", "./Agent_Outputs", "link"]


@pytest.mark.req("PX-32")
@pytest.mark.parametrize("root", OWN_ROOTS)
def test_the_root_of_a_project_is_none_of_remits_own_folders(project: Project, root: str) -> None:
    project.apply(plan_of(create("a", "a.txt")))
    (project.root / "Agent_Outputs").mkdir()
    (project.root / "link").symlink_to("agent_outputs/reports")
    (project.root / "remit.yaml").write_text(f"version: 1\nroot: {root}\n")
    with pytest.raises(RefusedError, match="where Remit keeps reports and backups") as caught:
        project.workspace.preview(plan_of(create("b", "b.txt")))
    assert caught.value.reason is Reason.STATE_UNSAFE
    with pytest.raises(RefusedError, match="where Remit keeps reports and backups"):
        project.opened()


def test_a_folder_with_a_name_like_theirs_may_be_the_root(project: Project) -> None:
    (project.root / "agent_outputs2").mkdir()
    (project.root / "remit.yaml").write_text("version: 1\nroot: agent_outputs2\n")
    project.apply(plan_of(create("b", "b.txt")))
    assert project.read("agent_outputs2/b.txt") == "new\n"


@pytest.mark.req("PX-06", "PX-34")
def test_the_new_name_of_a_file_may_be_protected_too(project: Project) -> None:
    project.write("a.txt")
    with pytest.raises(RefusedError) as caught:
        project.approve(plan_of(rename("a", "a.txt", ".env")))
    assert caught.value.reason is Reason.PROTECTED


@pytest.mark.req("PX-06")
def test_an_approval_for_another_file_is_refused(project: Project) -> None:
    with pytest.raises(RefusedError):
        project.approve(plan_of(create("a", ".env", "A=1\n")), protected=["sub/.env"])
    with pytest.raises(RefusedError, match="needs no approval of this kind"):
        project.approve(plan_of(create("a", "a.txt")), protected=["a.txt"])


@pytest.mark.req("PX-32", "PX-05")
@pytest.mark.parametrize("path", NEVER)
@pytest.mark.parametrize("kind", ["create", "delete", "rename"])
def test_what_is_remits_own_is_out_of_reach(project: Project, path: str, kind: str) -> None:
    project.write("a.txt")
    plans: dict[str, dict[str, Any]] = {
        "create": create("a", path),
        "delete": delete("a", path),
        "rename": rename("a", "a.txt", path),
    }
    with pytest.raises(RefusedError) as caught:
        project.approve(plan_of(plans[kind]), protected=[path])
    assert caught.value.reason is Reason.PATH_REFUSED


@pytest.mark.req("PX-05", "PX-23")
@pytest.mark.parametrize("path", ["../out.txt", "/etc/passwd", "a/../../out.txt", "dir/", "", "~/x", "a\0b", "x" * 256])
def test_a_path_that_leads_out_is_refused(project: Project, path: str) -> None:
    with pytest.raises(RefusedError):
        project.workspace.preview(plan_of(create("a", path)))


@pytest.mark.req("PX-05", "PX-23")
@pytest.mark.parametrize("trick", ["link", "hard link", "folder link", "fifo", "folder"])
def test_what_is_no_plain_file_is_refused(project: Project, trick: str, tmp_path: Any) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.txt").write_text("two\n")
    target = project.root / "a.txt"
    path = "a.txt"
    match trick:
        case "link":
            target.symlink_to(outside / "a.txt")
        case "hard link":
            target.hardlink_to(outside / "a.txt")
        case "folder link":
            (project.root / "dir").symlink_to(outside)
            path = "dir/a.txt"
        case "fifo":
            os.mkfifo(target)
        case "folder":
            target.mkdir()
    with pytest.raises(RefusedError) as caught:
        project.workspace.preview(plan_of(replace("a", path)))
    assert caught.value.reason is Reason.PATH_REFUSED
    assert (outside / "a.txt").read_text() == "two\n"


FINDINGS: dict[str, tuple[dict[str, Any], str, Reason]] = {
    "broken json": (create("a", "a.json", '{"a": 1,}'), "content", Reason.CONTENT_REFUSED),
    "broken yaml": (create("a", "a.yaml", "a: 1\na: 2\n"), "content", Reason.CONTENT_REFUSED),
    "credential": (
        create("a", "a.py", 'password = "hunter2hunter2"\n'),
        "content",
        Reason.CONTENT_REFUSED,
    ),
    "command": (create("a", "a.json", '{"a": "$(rm -rf /)"}\n'), "content", Reason.CONTENT_REFUSED),
    "script": (create("a", "a", "#!/bin/sh\necho\n"), "executable", Reason.EXECUTABLE_REFUSED),
    "execute bit": (create("a", "a.txt", "x\n", mode="0755"), "executable", Reason.EXECUTABLE_REFUSED),
    "program": (create("a", "a.bin", b"\x7fELF\x02\x01\x01" + bytes(64)), "executable", Reason.EXECUTABLE_REFUSED),
}


@pytest.mark.req("PX-24")
@pytest.mark.parametrize("name", FINDINGS)
def test_content_that_needs_an_approval_of_its_own(project: Project, name: str) -> None:
    step, kind, reason = FINDINGS[name]
    plan = plan_of(step)
    found = project.workspace.preview(plan).document.findings
    assert {finding.path for finding in found} == {step["target"]}
    assert "hunter2" not in str(found)
    with pytest.raises(RefusedError) as caught:
        project.approve(plan)
    assert caught.value.reason is reason
    envelope = project.approve(plan, **{kind: [step["target"]]})
    assert ran(project.workspace.apply(envelope.canonical())).status.status == "SUCCESS"


@pytest.mark.req("PX-24", "PX-06")
@pytest.mark.parametrize("path, code", [("a", 1011), ("a.json", 1007), (".env", 1006)])
def test_a_signature_alone_allows_nothing_that_needs_a_named_approval(project: Project, path: str, code: int) -> None:
    """The protocol layer signs whatever it likes; what it does not name is refused when it is applied."""
    content = "#!/bin/sh\n" if path == "a" else "{"
    plan = Plan.parse(plan_of(create("a", path, content)))
    workspace = project.workspace
    signer = load_signer(workspace.state.keys, "protocol")
    envelope = issue_envelope(signer, plan, workspace.config.digest(), (), NO_APPROVALS, project.clock())
    assert refused(workspace.apply(envelope.canonical()))[0] == code
    assert not (project.root / path).exists()


@pytest.mark.req("PX-31")
@pytest.mark.parametrize(
    "step, reason",
    [
        (action("a", "SQL_EXECUTE", "a.duckdb", {"type": "sql_execute", "query": "SELECT 1"}), "no connection"),
        (
            action("a", "FILE_MODIFY", "a.txt", {"type": "replace_content", "content": "x"}),
            "must give the hash of the file that it replaces",
        ),
    ],
    ids=["unknown", "unclear"],
)
def test_what_is_unclear_or_unknown_is_refused(project: Project, step: dict[str, Any], reason: str) -> None:
    project.write("a.txt")
    with pytest.raises(RefusedError, match=reason):
        project.workspace.preview(plan_of(step))


@pytest.mark.req("PX-06")
def test_a_rule_that_reads_a_protected_file_is_shown_and_needs_its_approval(project: Project) -> None:
    project.write("secrets.yaml", "a: 1\n")
    rules = [
        {"type": "json_path", "path": "./secrets.yaml", "expression": "$.a", "expected": 1},
        {"type": "json_schema", "path": "new.json", "schema": {"type": "object"}},
        {"type": "file_exists", "path": "new.json"},
    ]
    plan = plan_of(create("a", "new.json", "{}\n"), rules=rules)
    document = project.workspace.preview(plan).document
    assert (document.status, document.needs.protected) == ("NEEDS_APPROVAL", ("secrets.yaml",))
    assert document.rules == (
        "json_path secrets.yaml at $.a",
        "json_schema new.json against a schema in the plan",
        "file_exists new.json",
    )
    with pytest.raises(RefusedError, match="protected"):
        project.approve(plan)
    envelope = project.approve(plan, protected=["secrets.yaml"])
    assert ran(project.workspace.apply(envelope.canonical())).status.status == "SUCCESS"

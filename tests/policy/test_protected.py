"""Protected files by their groups, and the paths that no approval opens."""

import pytest

from remit.contracts.config import Protected
from remit.policy.plan import needed_approvals
from remit.policy.protected import group_of, is_forbidden, is_own_folder, protecting_group
from tests.policy.plans import config, modify, plan

BUILT_IN = Protected()


@pytest.mark.req("PX-06")
@pytest.mark.parametrize(
    "path, group",
    [
        (".env", "critical"),
        ("./.env", "critical"),
        ("deep/below/.env", "critical"),
        (".env.local", "critical"),
        ("credentials.json", "critical"),
        ("secrets.yaml", "critical"),
        ("conf/secrets.d", "critical"),
        (".git", "critical"),
        (".git/config", "critical"),
        pytest.param(".git/hooks/pre-commit", "critical", id="path-066"),
        ("sub/.git/config", "critical"),
        pytest.param("protected./.env", "critical", id="path-031"),
        pytest.param(".ENV", "critical", id="case"),
        pytest.param(".Git/Hooks/x", "critical", id="case of a folder"),
        pytest.param("SECRETS.yaml", "critical", id="case before a star"),
        ("pyproject.toml", "important"),
        ("packages/one/pyproject.toml", "important"),
        ("requirements.txt", "important"),
        (".pre-commit-config.yaml", "important"),
        ("agent/agent_rules.md", "agent_system"),
        ("sub/agent/agent_rules.md", "agent_system"),
        ("agent_executor/agent_executor.md", "agent_system"),
        (".envrc", None),
        ("env", None),
        ("gitconfig", None),
        (".gitignore", None),
        (".github/workflows/x.yaml", None),
        ("secrets", None),
        ("mysecrets.yaml", None),
        ("agent_rules.md", None),
        ("src/main.py", None),
    ],
)
def test_the_groups_of_the_spec(path: str, group: str | None) -> None:
    assert group_of(path, BUILT_IN) == group


@pytest.mark.req("PX-06")
@pytest.mark.parametrize(
    "glob, inside, outside",
    [
        ("keys/*.pem", ["keys/a.pem", "x/keys/a.pem", "keys/.pem"], ["keys/x/a.pem", "keys/a.pem.txt", "a.pem"]),
        ("keys/**", ["keys", "keys/a", "keys/x/y"], ["keyss/a", "key"]),
        ("keys/", ["keys", "keys/a"], ["keyss/a"]),
        ("a/**/z", ["a/z", "a/b/z", "a/b/c/z", "x/a/z"], ["a/zz", "az", "a/z/y"]),
        ("**/z", ["z", "a/z"], ["zz"]),
        ("a?c", ["abc", "x/abc"], ["ac", "a/c"]),
        ("[ab]x", ["ax", "BX"], ["cx"]),
        ("/top", ["top", "sub/top"], ["topper"]),
        ("**", ["anything", "a/b"], []),
        ("STRASSE", ["straße", "Strasse"], ["strase"]),
        ("re\u0301sume\u0301", ["résumé", "RÉSUMÉ"], ["resume"]),
        ("a+(b)|c.$", ["a+(b)|c.$"], ["ab", "aab", "cx"]),
    ],
)
def test_the_globs_of_a_configuration(glob: str, inside: list[str], outside: list[str]) -> None:
    protected = config(protected={"important": [glob]}).protected
    assert [path for path in inside if group_of(path, protected) != "important"] == []
    assert [path for path in outside if group_of(path, protected) is not None] == []


def test_a_configuration_adds_to_the_built_in_groups() -> None:
    protected = config(protected={"critical": ["x"]}).protected
    assert group_of(".env", protected) == group_of("x", protected) == "critical"


@pytest.mark.req("PX-06")
def test_the_files_of_the_catalogue_are_protected_by_their_own_paths() -> None:
    with_catalogue = config(goals={"catalogue": ["./goals/refunds.yaml"]})
    protected = ["goals/refunds.yaml", "goals//refunds.yaml", "Goals/REFUNDS.yaml"]
    assert [protecting_group(path, with_catalogue) for path in protected] == ["agent_system"] * 3
    assert protecting_group(".env", with_catalogue) == "critical"
    assert protecting_group("sub/goals/refunds.yaml", with_catalogue) is None
    assert protecting_group("goals/refunds.yaml", config()) is None
    edit = plan(modify("a", "goals/refunds.yaml"))
    assert needed_approvals(edit, with_catalogue).protected == ("goals/refunds.yaml",)
    assert needed_approvals(edit, config()).protected == ()


@pytest.mark.req("PX-32")
@pytest.mark.parametrize(
    "path, why",
    [
        ("agent_outputs", "agent_outputs holds"),
        ("agent_outputs/reports/x/backups/0000-a.bak", "agent_outputs holds"),
        ("./agent_outputs//reports", "agent_outputs holds"),
        ("agent_logs/executor/2026-01-01.jsonl", "agent_logs holds"),
        ("Agent_Outputs/reports/x", "agent_outputs holds"),
        ("remit.yaml", "remit.yaml says"),
        ("sub/REMIT.yaml", "remit.yaml says"),
        (".remit-0123456789abcdef01234567.part", "work in progress"),
        ("sub/.remit-0123456789ABCDEF01234567.part", "work in progress"),
        ("policies/access.cedar", "who may do what"),
        ("Policies/Access.cedar", "who may do what"),
    ],
)
def test_some_paths_no_approval_opens(path: str, why: str) -> None:
    assert why in is_forbidden(path, config(policies={"cedar_files": ["./policies/access.cedar"]}))


@pytest.mark.parametrize(
    "path",
    ["sub/agent_outputs/x", "agent_outputs2/x", "remit.yaml.txt", ".remit-0.part", "policies/other.cedar", "agent_log"],
)
def test_others_of_a_similar_name_are_plain(path: str) -> None:
    assert is_forbidden(path, config(policies={"cedar_files": ["policies/access.cedar"]})) == ""


def test_tasks_stay_out_of_these_folders_wherever_they_lie() -> None:
    assert is_own_folder(["srv", "project", "Agent_Outputs", "x"])
    assert is_own_folder(["agent_logs"])
    assert not is_own_folder(["srv", "agent_outputs2"])

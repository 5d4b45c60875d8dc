"""Groups of protected files, and paths that no approval can allow."""

import pytest

from remit.contracts.browser.browser import TokenConstraints
from remit.contracts.config.config import Protected
from remit.contracts.path_globs import require_glob
from remit.core.errors import RefusedError
from remit.execution.protected_paths import group_of, is_forbidden, is_named_by, is_own_folder, protecting_group
from remit.plans.policy.plan import needed_approvals
from tests.plans.policy.plans import config, modify, plan

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
        pytest.param(".e\u00adnv", "critical", id="soft hyphen"),
        pytest.param("\u200b.git\ufe0f/hooks/x", "critical", id="invisible characters in a folder"),
        pytest.param(".env.", "critical", id="dot at the end"),
        pytest.param(".git. /config", "critical", id="dot and blank at the end of a folder"),
        pytest.param("CLA\u200dUDE.md", "agent_system", id="joiner"),
        pytest.param("Makefile ", "important", id="blank at the end"),
        ("...", None),
        ("\u200b", None),
        ("pyproject.toml", "important"),
        ("packages/one/pyproject.toml", "important"),
        ("requirements.txt", "important"),
        (".pre-commit-config.yaml", "important"),
        ("agent/agent_rules.md", "agent_system"),
        ("sub/agent/agent_rules.md", "agent_system"),
        ("agent_executor/agent_executor.md", "agent_system"),
        (".envrc", "critical"),
        ("env", None),
        ("gitconfig", None),
        (".gitignore", None),
        (".github/ISSUE_TEMPLATE/bug.md", None),
        ("secrets", None),
        ("mysecrets.yaml", None),
        ("agent_rules.md", None),
        ("src/main.py", None),
    ],
)
def test_the_groups_of_the_spec(path: str, group: str | None) -> None:
    assert group_of(path, BUILT_IN) == group


@pytest.mark.req("PX-06")
def test_the_globs_of_a_configuration(subtests: pytest.Subtests) -> None:
    for glob, inside, outside in [
        ("keys/*.dat", ["keys/a.dat", "x/keys/a.dat", "keys/.dat"], ["keys/x/a.dat", "keys/a.dat.txt", "a.dat"]),
        ("*.dat", ["a.dat", "x/.dat", "x/A.DAT"], ["a.dat/x", "a.data"]),
        ("dat*", ["dat", "x/data.txt", "DATA"], ["data/x", "adat"]),
        ("*", ["a", "x/a"], []),
        ("d*t", ["dt", "x/dat"], ["dat/x", "data"]),
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
    ]:
        with subtests.test(glob):
            protected = config(protected={"important": [glob]}).protected
            assert [path for path in inside if group_of(path, protected) != "important"] == []
            assert [path for path in outside if group_of(path, protected) is not None] == []


SPEC_GROUPS = {
    "critical": [".git/**", ".env", ".env.*", "credentials.json", "secrets.*"],
    "important": ["requirements.txt", "pyproject.toml", "setup.py", ".pre-commit-config.yaml"],
    "agent_system": [
        "agent/agent_rules.md",
        "agent_inspector/agent_inspector.md",
        "agent_executor/agent_executor.md",
    ],
}


@pytest.mark.req("PX-06", "PX-46")
@pytest.mark.parametrize("given", [[], ["x"], [".env"]])
def test_a_configuration_adds_to_the_built_in_groups_and_removes_nothing(given: list[str]) -> None:
    protected = config(protected=dict.fromkeys(SPEC_GROUPS, given)).protected
    for group, globs in SPEC_GROUPS.items():
        held = getattr(protected, group)
        assert [glob for glob in (*globs, *getattr(BUILT_IN, group), *given) if glob not in held] == []


RUNS_OR_INSTRUCTS = {
    "important": """
        .github/workflows/ci.yml .github/actions/setup/action.yml .gitlab-ci.yml Jenkinsfile
        .circleci/config.yml azure-pipelines.yml .travis.yml .buildkite/pipeline.yml .drone.yml
        bitbucket-pipelines.yml .ci/run CODEOWNERS pyproject.toml setup.py setup.cfg package.json Makefile
        CMakeLists.txt Cargo.toml build.rs go.mod pom.xml build.gradle build.gradle.kts Gemfile composer.json
        Dockerfile Dockerfile.dev docker-compose.yml compose.yaml tox.ini noxfile.py conftest.py
        sitecustomize.py x.pth requirements-dev.txt requirements/dev.txt vite.config.ts poetry.lock uv.lock
        Cargo.lock yarn.lock package-lock.json pnpm-lock.yaml go.sum Gemfile.lock composer.lock
        .githooks/pre-commit .husky/pre-push .pre-commit-config.yaml lefthook.yml .gitattributes .gitmodules
        .gitconfig .vscode/tasks.json .vscode/settings.json .vscode/launch.json .idea/workspace.xml
        .zed/tasks.json .devcontainer/devcontainer.json .bashrc .profile .zshenv justfile infra/main.tf
        flake.nix
    """,
    "agent_system": """
        CLAUDE.md AGENTS.md GEMINI.md .mcp.json .claude/settings.json .claude/agents/x.md .cursor/mcp.json
        .cursorrules .codex/config.toml .gemini/settings.json .aider.conf.yml .github/copilot-instructions.md
        .github/instructions/x.instructions.md .windsurfrules .windsurf/rules/x.md .clinerules .roo/rules/x.md
    """,
    "critical": """
        server.pem tls.key id_rsa id_ed25519.pub .ssh/config .gnupg/x .netrc .npmrc .pypirc .aws/credentials
        kubeconfig .kube/config .env.production .envrc prod.env .git/hooks/pre-commit terraform.tfvars
    """,
}


@pytest.mark.req("PX-46")
@pytest.mark.parametrize("group", RUNS_OR_INSTRUCTS)
def test_programs_and_instructions_are_protected_at_any_depth_and_in_any_case(group: str) -> None:
    for path in RUNS_OR_INSTRUCTS[group].split():
        spellings = [path, f"./{path}", f"sub/folder/{path}", path.upper(), path.lower(), path.swapcase()]
        assert {spelled: group_of(spelled, BUILT_IN) for spelled in spellings} == dict.fromkeys(spellings, group)


ORDINARY = """
    README.md src/main.py src/keys.py src/lock.py docs/agents.html data/rows.csv settings.json config.json
    notes.txt src/package/__init__.py build/out.txt db.duckdb models/a.sql dbt_project.yml profiles.yml
    packages.yml app/config.ts environment.py actions.yml keyboard.txt monkey.txt blocked git claude.txt
    .gitignore .editorconfig
"""


@pytest.mark.req("PX-46")
def test_ordinary_files_are_not_protected_by_the_built_in_list() -> None:
    assert [path for path in ORDINARY.split() if group_of(path, BUILT_IN) is not None] == []


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
def test_some_paths_cannot_be_approved(subtests: pytest.Subtests) -> None:
    for path, why in [
        ("agent_outputs", "agent_outputs holds"),
        ("agent_outputs/reports/x/backups/0000-a.bak", "agent_outputs holds"),
        ("./agent_outputs//reports", "agent_outputs holds"),
        ("agent_logs/executor/2026-01-01.jsonl", "agent_logs holds"),
        ("Agent_Outputs/reports/x", "agent_outputs holds"),
        ("remit.yaml", "remit.yaml says"),
        ("sub/REMIT.yaml", "remit.yaml says"),
        (".remit-0123456789abcdef01234567.part", "during a change"),
        ("sub/.remit-0123456789ABCDEF01234567.part", "during a change"),
        ("policies/access.cedar", "who may do what"),
        ("Policies/Access.cedar", "who may do what"),
        ("remit\u2060.yaml.", "remit.yaml says"),
        ("policies\u00ad/access.cedar ", "who may do what"),
    ]:
        with subtests.test(path):
            assert why in is_forbidden(path, config(policies={"cedar_files": ["./policies/access.cedar"]}))


@pytest.mark.parametrize(
    "path",
    ["sub/agent_outputs/x", "agent_outputs2/x", "remit.yaml.txt", ".remit-0.part", "policies/other.cedar", "agent_log"],
)
def test_paths_of_similar_names_are_not_forbidden(path: str) -> None:
    assert is_forbidden(path, config(policies={"cedar_files": ["policies/access.cedar"]})) == ""


def test_tasks_are_refused_in_these_folders_at_any_depth() -> None:
    assert is_own_folder(["srv", "project", "Agent_Outputs", "x"])
    assert is_own_folder(["agent_logs"])
    assert is_own_folder(["agent\ufeff_logs."])
    assert not is_own_folder(["srv", "agent_outputs2"])


@pytest.mark.req("PV-04")
def test_a_glob_that_permits_matches_from_the_root_and_exact_characters_only(subtests: pytest.Subtests) -> None:
    for glob, inside, outside in [
        ("docs/**", ["docs/a", "docs/x/y", "docs/.hidden"], ["docs", "docs-old/a", "docsa", "Docs/a", "sub/docs/a"]),
        ("docs/", ["docs/a", "docs/x/y"], ["docs", "docs-old/a"]),
        ("docs/*.md", ["docs/a.md"], ["docs/x/a.md", "docs/a.MD", "docs/a.mdx", "a.md"]),
        ("**/a.md", ["a.md", "x/y/a.md"], ["b.md", "xa.md", "a.md/b"]),
        ("README.md", ["README.md", "./README.md", "README.md/"], ["readme.md", "x/README.md", "README.md.bak"]),
        ("[ab].md", ["a.md"], ["A.md", "c.md"]),
        ("**", ["a", "x/y/z"], [""]),
        ("docs/**", [], ["docs/../secret", "docs/x/../../secret", "../docs/a", "", ".", "docs/.."]),
        ("stra\u00dfe/**", ["stra\u00dfe/a"], ["strasse/a", "STRASSE/a"]),
    ]:
        for path in inside:
            with subtests.test(glob=glob, path=path):
                assert is_named_by(path, (glob,))
        for path in outside:
            with subtests.test(glob=glob, path=path):
                assert not is_named_by(path, ("none", glob))


@pytest.mark.req("PV-04", "RU-02")
@pytest.mark.parametrize(
    "glob", ["", "/etc/**", "../x", "docs/../x", "a//b", "./docs", "docs/./x", "do**cs", "a\\b", "a\nb", "x" * 201, "/"]
)
def test_an_unclear_glob_is_refused(glob: str) -> None:
    with pytest.raises(ValueError, match="a glob"):
        require_glob(glob)
    with pytest.raises(RefusedError):
        TokenConstraints.from_tree({"paths": [glob]}, source="a token")


@pytest.mark.req("RU-02")
def test_a_token_names_a_limited_number_of_globs_and_at_least_one() -> None:
    assert TokenConstraints.from_tree({"paths": ["a"] * 100}, source="a token").given() == ("paths",)
    for paths in ([], ["a"] * 101):
        with pytest.raises(RefusedError):
            TokenConstraints.from_tree({"paths": paths}, source="a token")

"""Which plans a token lets its agent read, by the text of the plan; and which stored documents it is then shown."""

from pathlib import Path
from typing import Any, Final

import pytest

from remit.authority.capability_token import Token
from remit.contracts.browser.browser import TokenConstraints
from remit.contracts.config.config import SystemConfig
from remit.contracts.plans.plan import Plan
from remit.services.plans.read_grants import MAY_BE_READ, ReadGrant, is_plan_readable, read_document
from tests.plans.agent_views.test_read_authority import BORDER, READ, SHOWN
from tests.plans.agent_views.worlds import PLANS, SETTINGS
from tests.plans.project import Project, create, delete, plan_of, replace
from tests.services.test_rights import agent
from tests.support.shared_zygotes import zygotes_are_shared

__all__ = ["zygotes_are_shared"]
pytestmark = pytest.mark.req("PV-04")
CONFIG: Final = SystemConfig.from_tree({"version": 1, **SETTINGS})
GRANT: Final = ReadGrant(READ["paths"], READ["connections"])
BY_CONTENT: Final = ("a link", "a folder that", "a hard link", "credential", "a query file with", "binary", "large")
"""Plans on files that the token names. Their content or their kind decides."""


@pytest.mark.parametrize("name", [name for name in PLANS if name != "refused: no plan"])
def test_a_plan_on_anything_else_is_not_readable(name: str) -> None:
    assert not is_plan_readable(Plan.parse(PLANS[name]), CONFIG, GRANT)


@pytest.mark.parametrize("name", [name for name in BORDER if not name.startswith(BY_CONTENT)])
def test_a_plan_on_something_else_too_is_not_readable(name: str) -> None:
    assert not is_plan_readable(Plan.parse(BORDER[name]), CONFIG, GRANT)


@pytest.mark.parametrize("name", SHOWN)
def test_a_plan_on_what_the_token_names_is_readable(name: str) -> None:
    plan = Plan.parse(SHOWN[name][0])
    assert is_plan_readable(plan, CONFIG, GRANT)
    assert not is_plan_readable(plan, CONFIG, ReadGrant())
    without = [ReadGrant((), GRANT.connections), ReadGrant(GRANT.paths, ())]
    assert not all(is_plan_readable(plan, CONFIG, each) for each in without)


def test_a_database_at_a_protected_path_is_not_readable() -> None:
    plan = Plan.parse(SHOWN["changed rows"][0])
    for path, expected in (("data/open.duckdb", True), (".git/open.duckdb", False), ("agent_outputs/x.duckdb", False)):
        tree: dict[str, Any] = {"version": 1, "connections": {"open": {"type": "duckdb", "path": path}}}
        assert is_plan_readable(plan, SystemConfig.from_tree(tree), GRANT) is expected


def test_protected_globs_of_the_configuration_count() -> None:
    plan = Plan.parse(plan_of(create("a", "docs/plans/a.md")))
    assert is_plan_readable(plan, CONFIG, GRANT)
    config = SystemConfig.from_tree({"version": 1, "protected": {"critical": ["plans/**"]}})
    assert not is_plan_readable(plan, config, GRANT)


def test_constraints_without_the_capability_give_nothing() -> None:
    token: Token = agent("plan.propose").token
    held = {name: getattr(token, name) for name in Token.__dataclass_fields__}
    constraints = TokenConstraints(paths=("docs/**",), connections=("open",))
    assert ReadGrant.of(Token(**{**held, "constraints": constraints})) == ReadGrant()
    able = Token(**{**held, "constraints": constraints, "caps": frozenset({"plan.read"})})
    assert ReadGrant.of(able) == ReadGrant(("docs/**",), ("open",))


def test_a_document_is_shown_if_it_is_of_this_plan_and_searched(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("docs/a.md")
    plan = Plan.parse(plan_of(replace("a", "docs/a.md", "two", "2")))
    config, document = project.workspace.config, project.workspace.preview(plan.canonical()).document
    shown = read_document(document, plan, config, GRANT)
    assert shown is not None
    assert (shown.files, shown.inputs, shown.preview_digest, shown.config_digest) == (document.files, None, None, None)
    assert MAY_BE_READ in document.canonical().decode()
    not_searched = document.model_copy(update={"free_of_credentials": False})
    assert MAY_BE_READ not in not_searched.canonical().decode()
    quoting = document.files[0].model_copy(update={"diff": f"+{MAY_BE_READ}\n"})
    assert MAY_BE_READ not in not_searched.model_copy(update={"files": (quoting,)}).canonical().decode()
    secret = document.files[0].model_copy(update={"path": "secret.md"})
    for other in (
        not_searched,
        document.model_copy(update={"config_digest": "sha256:" + "0" * 64}),
        document.model_copy(update={"plan_digest": "sha256:" + "0" * 64}),
        document.model_copy(update={"status": "WITHHELD"}),
        document.model_copy(update={"files": (secret,)}),
        document.model_copy(update={"files": (document.files[0].model_copy(update={"new_path": "secret.md"}),)}),
    ):
        assert read_document(other, plan, config, GRANT) is None
    assert read_document(document, plan, config, ReadGrant(("other/**",))) is None
    project.close()


@pytest.mark.parametrize(
    "content, plan, expected",
    [
        ("one\ntwo\n", replace("a", "docs/a.md", "two", "2"), True),
        ("one\ntwo\n", replace("a", "docs/a.md", "none", "2"), True),
        ("one\npassword = 'hunter2-and-more'\n", replace("a", "docs/a.md", "one", "1"), False),
        ("one\npassword = 'hunter2-and-more'\n", replace("a", "docs/a.md", "none", "1"), False),
        ("one\ntwo\n", replace("a", "docs/a.md", "two", "password = 'hunter2-and-more'"), False),
        ("one\ntwo\n<password>hq7Z-tango-mike</password>\n", replace("a", "docs/a.md", "one", "1"), False),
        ("one\npassword: |\n  hunter2-and-more\n", replace("a", "docs/a.md", "one", "1"), False),
        ("one\nada@example.com\n", replace("a", "docs/a.md", "one", "1"), True),
        # The end of so long a diff is neither shown nor searched for findings.
        ("x\n" * 450_000 + "password = 'hunter2-and-more'\n", delete("a", "docs/a.md"), False),
        ("x\n" * 450_000 + "end\n", delete("a", "docs/a.md"), True),
        ("one\n\0two\n", replace("a", "docs/a.md", "one", "1"), False),
        ("one\n" * 400_000, replace("a", "docs/a.md", "none", "1"), False),
    ],
)
def test_the_whole_file_is_searched_before_and_after(
    tmp_path: Path, content: str, plan: dict[str, Any], *, expected: bool
) -> None:
    project = Project(tmp_path)
    project.write("docs/a.md", content)
    assert project.workspace.preview(plan_of(plan)).document.free_of_credentials is expected
    project.close()

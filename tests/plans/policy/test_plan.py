"""Plans as text: what is refused before anybody looks at the disk, with all that is wrong named at once."""

import time
from typing import Any

import pytest

from remit.contracts.plans.envelope import Approvals
from remit.contracts.plans.plan import Plan
from remit.core.errors import Reason, RefusedError
from remit.execution.decision import Denial
from remit.plans.policy.plan import MAX_PLAN_PATH_BYTES, decide_plan, needed_approvals, paths_of
from remit.plans.policy.required_approvals import NO_APPROVALS, Needed, PathFinding, uncovered
from tests.plans.policy.plans import HASH, ROOT, config, create, delete, modify, plan, rename

CONFIG = config()


def approvals(**given: list[str]) -> Approvals:
    return Approvals.from_tree({**NO_APPROVALS.tree(), **given})


def denials(built: Plan, given: Approvals | None = None, **settings: Any) -> tuple[Denial, ...]:
    decision = decide_plan(built, config(**settings), ROOT, given)
    assert decision.allowed == (not decision.denials)
    assert all(denial.what and denial.where and denial.next_step for denial in decision.denials)
    return decision.denials


def reasons(built: Plan, given: Approvals | None = None, **settings: Any) -> list[Reason]:
    return [denial.reason for denial in denials(built, given, **settings)]


@pytest.mark.req("PX-05")
def test_a_plain_plan_is_allowed_and_its_paths_are_listed_once_in_order() -> None:
    built = plan(modify("a", "src/x.py"), rename("b", "./src//x.py", "src/y.py"), delete("c", "old"))
    assert decide_plan(built, CONFIG, ROOT, NO_APPROVALS).allowed
    assert [place.below for place in paths_of(built, CONFIG, ROOT)] == ["src/x.py", "src/y.py", "old"]


@pytest.mark.req("PX-05", "PX-23", "PX-34")
def test_a_wrong_path_is_refused_in_every_role_and_no_approval_helps(subtests: pytest.Subtests) -> None:
    for case, path in [
        ("path-002", "../ws-secret/secret.txt"),
        ("path-009", f"{ROOT}/../outside/secret.txt"),
        ("path-011", "sub/.."),
        ("path-014", "~/.ssh/authorized_keys"),
        ("path-019", "..\\outside\\secret.txt"),
        ("path-020", "．．／outside／secret.txt"),
        ("path-032", "a" * 256),
        ("path-050", "/proc/self/mem"),
        ("path-060", "sub/../protected/.env"),
        ("path-073", "/state/keys/issuer.pem"),
        ("path-074", "/state/checkpoints/x"),
        ("outputs", "agent_outputs/reports/x"),
        ("logs", "agent_logs/x"),
        ("config", "sub/remit.yaml"),
        ("part", ".remit-0123456789abcdef01234567.part"),
    ]:
        with subtests.test(case):
            named = [path]
            given = approvals(protected=named, executable=named, content=named)
            for action in (
                create("a", path),
                modify("a", path),
                delete("a", path),
                rename("a", path, "free"),
                rename("a", "there", path),
            ):
                assert reasons(plan(action), given) == [Reason.PATH_REFUSED]


@pytest.mark.req("PX-23")
def test_a_sibling_whose_name_begins_like_the_root_is_refused() -> None:
    with pytest.raises(RefusedError):
        paths_of(plan(create("a", f"{ROOT}-evil/x")), CONFIG, ROOT)
    assert reasons(plan(create("a", "../project-evil/x"))) == [Reason.PATH_REFUSED]


@pytest.mark.req("PX-06", "PX-34")
@pytest.mark.parametrize("path", [".env", "./.env", pytest.param(".git/hooks/pre-commit", id="path-066"), "x/.ENV"])
def test_a_protected_file_needs_an_approval_of_its_own(path: str) -> None:
    for built in (plan(modify("a", path)), plan(rename("a", path, "free")), plan(rename("a", "there", path))):
        assert reasons(built, NO_APPROVALS) == [Reason.PROTECTED]
        assert reasons(built, approvals(protected=["other/.env"], content=[path], executable=[path])) == [
            Reason.PROTECTED
        ]
        assert reasons(built, approvals(protected=[path])) == []
        assert reasons(built, None) == [], "a draft is looked at first"


RULES: dict[str, dict[str, Any]] = {
    "exists": {"type": "file_exists", "path": ".env"},
    "absent": {"type": "file_absent", "path": "./.env"},
    "hash": {"type": "hash", "path": ".env", "digest": HASH},
    "document": {"type": "json_schema", "path": ".env", "schema": {}},
    "schema": {"type": "json_schema", "path": "a.json", "schema_file": ".//.env"},
    "value": {"type": "json_path", "path": ".env", "expression": "$.a", "expected": 1},
}


@pytest.mark.req("PX-06", "PX-34")
@pytest.mark.parametrize("name", RULES)
def test_a_rule_does_not_read_a_protected_file_without_its_approval(name: str) -> None:
    built = plan(create("a", "x"), validation_rules=[RULES[name]])
    assert needed_approvals(built, CONFIG).protected == (".env",)
    [denial] = denials(built, NO_APPROVALS)
    assert (denial.reason, denial.where) == (Reason.PROTECTED, ".env")
    assert "changed or read" in denial.next_step
    assert reasons(built, approvals(protected=["x/.env"])) == [Reason.PROTECTED]
    assert reasons(built, approvals(protected=[".env"])) == []
    assert reasons(built, None) == []


def test_a_protected_file_is_named_once_though_changed_and_read() -> None:
    rules = [{"type": "file_exists", "path": path} for path in ("./.env", "secrets.yaml", ".env")]
    built = plan(modify("a", ".env"), validation_rules=rules)
    assert needed_approvals(built, CONFIG).protected == (".env", "secrets.yaml")


@pytest.mark.req("PX-06", "PX-32")
@pytest.mark.parametrize("path", ["agent_outputs/reports/r/backups/0-.env.bak", "AGENT_LOGS/x", "remit.yaml"])
def test_a_rule_does_not_read_what_remit_keeps_of_files(path: str) -> None:
    rule = {"type": "hash", "path": path, "digest": HASH}
    built = plan(create("a", "x"), validation_rules=[RULES["exists"], rule])
    [denial] = denials(built, approvals(protected=[".env", path]))
    assert (denial.reason, denial.where) == (Reason.PATH_REFUSED, f"validation_rules, 1: {path}")


@pytest.mark.req("PX-26")
def test_what_rules_read_is_bounded_as_what_is_changed() -> None:
    long = [{"type": "file_exists", "path": "/".join("d" * 250 for _ in range(15)) + f"/{n}"} for n in range(80)]
    assert reasons(plan(create("a", "x"), validation_rules=long)) == [Reason.LIMIT_EXCEEDED]
    rules = [{"type": "file_exists", "path": f"{number}/.env"} for number in range(1000)]
    assert reasons(plan(create("a", "x"), validation_rules=rules)) == []
    assert reasons(plan(create("a", ".env"), validation_rules=rules)) == [Reason.LIMIT_EXCEEDED]


def test_an_approval_may_spell_the_file_another_way_but_not_with_another_case() -> None:
    assert reasons(plan(modify("a", "sub/.env")), approvals(protected=["./sub//.env"])) == []
    assert reasons(plan(modify("a", "sub/.ENV")), approvals(protected=["sub/.env"])) == [Reason.PROTECTED]


def test_needed_approvals_are_listed_in_the_order_of_the_plan() -> None:
    pipeline = {
        "action_id": "p",
        "action_type": "PIPELINE_RUN",
        "reversible": False,
        "operation": {"type": "pipeline_run", "pipeline": "daily"},
    }
    built = plan(rename("a", "x", "setup.py"), modify("b", ".env"), modify("c", ".env", reversible=False), pipeline)
    assert needed_approvals(built, CONFIG) == Needed(("setup.py", ".env"), ("p",))


@pytest.mark.req("PX-31")
def test_a_pipeline_that_is_not_registered_is_refused() -> None:
    run = {"type": "pipeline_run", "pipeline": "daily"}
    pipeline = {"action_id": "p", "action_type": "PIPELINE_RUN", "reversible": False, "operation": run}
    found = denials(plan(pipeline, create("a", "x")))
    assert [(denial.reason, denial.where) for denial in found] == [
        (Reason.CAPABILITY_UNSUPPORTED, "action p, pipeline"),
    ]


@pytest.mark.req("PX-31")
def test_a_whole_file_is_replaced_only_by_one_who_says_what_it_is() -> None:
    operation = {"type": "replace_content", "content": "new"}
    assert reasons(plan(modify("a", "x", operation=operation))) == [Reason.MALFORMED]
    assert reasons(plan(modify("a", "x", operation=operation, expected_hash_before=HASH))) == []


@pytest.mark.req("PX-08")
def test_a_circle_and_an_unknown_id_are_refused() -> None:
    assert reasons(plan(create("a", "x", "b"), create("b", "y", "a"))) == [Reason.DEPENDENCY_INVALID]
    assert reasons(plan(create("a", "x", "nobody"))) == [Reason.DEPENDENCY_INVALID]


@pytest.mark.req("PX-26")
def test_files_are_counted_not_actions() -> None:
    many = [create(f"a{number}", f"f{number}") for number in range(100)]
    again = [modify(f"b{number}", f"./f{number}") for number in range(100)]
    assert reasons(plan(*many, *again)) == []
    assert reasons(plan(*many, create("more", "f100"))) == [Reason.LIMIT_EXCEEDED]
    assert reasons(plan(*many[:4]), limits={"max_files": 3}) == [Reason.LIMIT_EXCEEDED]
    assert reasons(plan(*[rename(f"r{n}", f"f{n}", f"g{n}") for n in range(100)])) == []


@pytest.mark.req("PX-26")
def test_the_bytes_of_all_paths_are_bounded() -> None:
    names = ["/".join("d" * 250 for _ in range(15)) + f"/{number:03}" for number in range(60)]
    fits = MAX_PLAN_PATH_BYTES // len(names[0])
    again = [modify(f"a{number}", names[number % 60]) for number in range(fits)]
    assert reasons(plan(*again)) == []
    assert reasons(plan(*again, modify("more", names[0]))) == [Reason.LIMIT_EXCEEDED]


@pytest.mark.parametrize(
    "actions",
    [
        [delete("a", "x"), create("b", "x/y")],
        [create("a", "x/y/z"), rename("b", "old", "x")],
        [create("a", "x/y"), create("b", "x!"), create("c", "x")],
        [create("a", "d/x"), create("b", "d/x-y"), create("c", "d/x/y"), create("e", "d/x.z")],
    ],
)
def test_a_file_is_not_a_folder_in_the_same_plan(actions: list[dict[str, Any]]) -> None:
    [denial] = denials(plan(*actions))
    assert denial.reason is Reason.PATH_REFUSED
    assert "both as a file and as a folder" in denial.what


def test_a_file_is_not_renamed_to_itself() -> None:
    assert reasons(plan(rename("a", "x/y", "x//./y"))) == [Reason.PATH_REFUSED]


@pytest.mark.req("PX-05")
def test_rules_read_nothing_outside_of_the_root() -> None:
    rules = [
        {"type": "file_exists", "path": "/etc/passwd"},
        {"type": "hash", "path": "../x", "digest": HASH},
        {"type": "json_schema", "path": "a.json", "schema_file": "../../schema.json"},
        {"type": "file_absent", "path": "fine"},
    ]
    found = denials(plan(create("a", "x"), validation_rules=rules))
    assert [denial.where.split(":")[0] for denial in found] == [f"validation_rules, {number}" for number in range(3)]
    assert {denial.reason for denial in found} == {Reason.PATH_REFUSED}


def test_a_refusal_names_all_that_is_wrong() -> None:
    built = plan(create("a", "../x"), modify("b", ".env", "nobody"), create("c", "remit.yaml"))
    assert reasons(built, NO_APPROVALS) == [
        Reason.PATH_REFUSED,
        Reason.PATH_REFUSED,
        Reason.DEPENDENCY_INVALID,
        Reason.PROTECTED,
    ]


def test_a_hostile_plan_takes_no_long_time_to_refuse() -> None:
    deep = "d/" * 2000
    built = plan(*[create(f"a{number}", f"{deep}{number}") for number in range(1000)])
    most = plan(*[modify(f"a{number}", f"{deep}{number % 60}") for number in range(60)])
    start = time.process_time()
    assert set(reasons(built, NO_APPROVALS)) == {Reason.LIMIT_EXCEEDED}
    assert reasons(most, NO_APPROVALS) == []
    assert time.process_time() - start < 3


@pytest.mark.req("PX-24")
@pytest.mark.parametrize(
    "rule, needs, reason",
    [
        ("syntax", "content", Reason.CONTENT_REFUSED),
        ("object_tag", "content", Reason.CONTENT_REFUSED),
        ("command", "content", Reason.CONTENT_REFUSED),
        ("credential", "content", Reason.CONTENT_REFUSED),
        ("executable", "executable", Reason.EXECUTABLE_REFUSED),
    ],
)
def test_a_finding_is_covered_by_the_approval_of_its_kind_and_file(rule: Any, needs: str, reason: Reason) -> None:
    finding = PathFinding("bin/x", rule, "line 3", "something odd")
    for given in (NO_APPROVALS, approvals(**{needs: ["bin/y"]}), approvals(protected=["bin/x"])):
        [denial] = uncovered([finding], Needed(), given)
        assert (denial.reason, denial.where) == (reason, "bin/x, line 3")
        assert f"--allow-{needs} 'bin/x'" in denial.next_step
    other = "content" if needs == "executable" else "executable"
    assert uncovered([finding], Needed(), approvals(**{other: ["bin/x"]}))
    assert uncovered([finding], Needed(), approvals(**{needs: ["./bin/x"]})) == ()


def test_what_cannot_be_undone_is_approved_by_its_id() -> None:
    needed = Needed(irreversible=("p1", "p2"))
    [denial] = uncovered((), needed, approvals(irreversible=["p1"]))
    assert denial.where == "action p2"

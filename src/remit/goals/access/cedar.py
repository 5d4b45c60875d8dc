"""The Cedar engine: checks and compiles policies, and evaluates one question with them.

Two behaviours of the engine are corrected here. The engine skips a policy that fails while it is evaluated, so a
`forbid` that fails would forbid nothing. `evaluate` reports such a failure, and the caller denies. The engine also
names policies by their position. Here each policy has an `@id` and is named by it.

`@reason("...")` is a text of the policy's author for users whom the policy stops. It does not affect any decision.
"""

import functools
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from remit.contracts.goals.access import AccessSnapshot
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, render_line
from remit.goals.access.cedar_schema import CedarQuestion, schema_tree, user_name
from remit.goals.access.policy_text import PolicyText, split_policies
from remit.parsing import Bounds, parse_json

if TYPE_CHECKING:
    from cedarpy import PolicySet, Schema

Verdict = Literal["permit", "approval_required", "forbid"]

MAX_POLICIES: Final = 300
APPROVAL: Final = "approval_required"
_MAX_LISTED: Final = 20
_ANNOTATIONS: Final = frozenset({"id", "verdict", "description", "reason"})
_ID: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}", re.ASCII)
_FAILED: Final = re.compile(r"error while evaluating policy `policy([0-9]+)`: ")
# The JSON that the engine makes of one policy has two levels for each operator in a row. This is far below the depth
# at which a reader would fail.
_TREE: Final = Bounds(max_bytes=4 << 20, max_depth=300)


@dataclass(frozen=True, slots=True)
class Compiled:
    """Checked policies, ready for evaluation. The objects of the engine are immutable."""

    policies: "PolicySet"
    schema: "Schema"
    verdicts: Mapping[str, Verdict]
    """By id, in the order of the policies."""


class UnknownActionError(RefusedError):
    """A policy names an action that is not, or no longer, in the catalogue."""


class Evaluation(NamedTuple):
    """The answer of the engine."""

    decision: str
    policies: tuple[str, ...]
    """The ids of the policies that decided, sorted."""
    failed: tuple[str, ...]
    """The ids of the policies that failed, or a short description of another failure."""


@functools.cache
def engine_version() -> str:
    from importlib.metadata import version  # noqa: PLC0415 - slow to import, and needed only with policies

    with _engine():
        return f"cedarpy {version('cedarpy')}"


def compile_policies(snapshot: AccessSnapshot) -> Compiled:
    """Compile the policies of a snapshot.

    Raises:
        RefusedError: A policy does not fit the schema. It names file, line and policy.
    """
    cedar = _cedar()
    statements = [found for file in sorted(snapshot.files) for found in split_policies(file, snapshot.files[file])]
    if len(statements) > MAX_POLICIES:
        raise RefusedError(
            Reason.TOO_LARGE,
            f"there are {len(statements)} policies, but at most {MAX_POLICIES} are allowed",
            where=statements[MAX_POLICIES].where,
            next_step="Cover more with one policy: a tenant instead of each user, or a list of actions.",
        )
    schema = _schema(snapshot)
    verdicts: dict[str, Verdict] = {}
    for statement in statements:
        _add_statement(statement, schema, snapshot, verdicts)
    with _engine():
        # Each policy was parsed separately, so none of them can continue in the next one.
        policies = cedar.PolicySet.from_str("\n".join(statement.text for statement in statements))
        if len(policies) != len(verdicts):
            raise ValueError("the engine has another number of policies than were read")
    return Compiled(policies, schema, verdicts)


def find_problems(snapshot: AccessSnapshot) -> tuple[RefusedError, ...]:
    """Return every problem for which `compile_policies` would refuse. One mistake does not hide the next."""
    problems: list[RefusedError] = []
    schema, verdicts = _schema(snapshot), dict[str, Verdict]()
    for file in sorted(snapshot.files):
        try:
            statements = split_policies(file, snapshot.files[file])
        except RefusedError as problem:
            problems.append(problem)
            continue
        for statement in statements[:MAX_POLICIES]:
            try:
                _add_statement(statement, schema, snapshot, verdicts)
            except RefusedError as problem:
                problems.append(problem)
    try:
        if not problems:
            compile_policies(snapshot)
    except RefusedError as problem:  # found only when all policies are compiled together
        problems.append(problem)
    return tuple(problems)


def _schema(snapshot: AccessSnapshot) -> "Schema":
    cedar = _cedar()
    with _engine():
        made: Schema = cedar.Schema.from_json_str(json.dumps(schema_tree(snapshot.actions)))
        return made


def _add_statement(
    statement: PolicyText, schema: "Schema", snapshot: AccessSnapshot, verdicts: dict[str, Verdict]
) -> None:
    """Check one policy and add it to those that were accepted before."""
    name, verdict = _read(statement, snapshot)
    if name in verdicts:
        raise _refused(f'two policies have the id @id("{name}")', statement, "Give each policy its own id.")
    _validate(statement, name, schema, snapshot)
    verdicts[name] = verdict


def evaluate(compiled: Compiled, question: CedarQuestion) -> Evaluation:
    """Evaluate one question. Exceptions of the engine are passed on."""
    answer = _cedar().is_authorized(question.request, compiled.policies, question.entities, compiled.schema)
    names = answer.diagnostics.id_annotations_by_reason
    failed = tuple(sorted({_find_failed_policy(error, list(compiled.verdicts)) for error in answer.diagnostics.errors}))
    # By subscript: a policy without a name is not one of those that were read, so this must fail.
    decided = tuple(sorted(names[reason] for reason in answer.diagnostics.reasons))
    return Evaluation(answer.decision.value, decided, failed)


def is_failure(problem: BaseException) -> bool:
    """Tell whether the engine failed. Its panics are not an `Exception`. A keyboard interrupt is no failure of it."""
    return isinstance(problem, Exception) or type(problem).__name__ == "PanicException"


def _find_failed_policy(error: str, names: list[str]) -> str:
    """Name the failed policy without the engine's own text, which quotes values of fields."""
    found = _FAILED.match(error)
    return names[int(found[1])] if found and int(found[1]) < len(names) else "the question does not fit the schema"


def _read(statement: PolicyText, snapshot: AccessSnapshot) -> tuple[str, Verdict]:
    """Return the id of a policy, and its verdict when it applies."""
    tree = policy_tree(statement)
    annotations = tree.get("annotations", {})
    name = annotations.get("id")
    if not isinstance(name, str) or not _ID.fullmatch(name):
        raise _refused(
            "a policy needs an id: a letter, then letters, digits, `_`, `.` or `-`, at most 64 in all",
            statement,
            'Write @id("some-name") before it.',
        )
    if unknown := sorted(annotations.keys() - _ANNOTATIONS):
        # With a misspelt @verdict, a permit that needs an approval would become a plain permit.
        raise _refused(
            f"the policy {name} has an unknown annotation: @{unknown[0]}",
            statement,
            "Use @id, @verdict, @reason and @description.",
        )
    for kind, identifier in _named_entities(tree):
        _require_listed(kind, identifier, name, statement, snapshot)
    if "verdict" not in annotations:
        return name, "forbid" if tree["effect"] == "forbid" else "permit"
    if tree["effect"] != "permit" or annotations["verdict"] != APPROVAL:
        raise _refused(
            f"the policy {name} has an unknown @verdict",
            statement,
            f'Write @verdict("{APPROVAL}") before a permit, or omit it for a plain permit or a forbid.',
        )
    return name, APPROVAL


def policy_tree(statement: PolicyText) -> dict[str, Any]:
    """Return a policy as JSON."""
    cedar = _cedar()
    with _engine():
        try:
            text: str = cedar.policies_to_json_str(statement.text)
        except ValueError as problem:
            raise _refused(
                f"this is not a Cedar policy: {problem}", statement, "Correct the policy from the named line on."
            ) from None
    try:
        found = parse_json(text.encode(), _TREE, source=statement.where)
    except RefusedError as problem:
        raise _refused(
            "the policy has too many operators in a row", statement, "Split it into several policies."
        ) from problem
    if found["templates"] or len(found["staticPolicies"]) != 1:
        # A template without a link applies to no request, so a `forbid` in it would forbid nothing.
        raise _refused(
            "this is a policy template, with an open ?principal or ?resource",
            statement,
            'Name a principal or a resource, such as `principal in Tenant::"acme"`.',
        )
    [policy] = found["staticPolicies"].values()
    return dict(policy)


def _named_entities(tree: Any) -> Iterator[tuple[str, str]]:
    """Yield the entities that a policy names. In Cedar's JSON only they have a type and an id that are both strings."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            kind, identifier = node.get("type"), node.get("id")
            if len(node) == 2 and isinstance(kind, str) and isinstance(identifier, str):
                yield kind, identifier
            pending.extend(node.values())
        elif isinstance(node, list):
            pending.extend(node)


def _require_listed(kind: str, identifier: str, name: str, statement: PolicyText, snapshot: AccessSnapshot) -> None:
    """Refuse a name that is not listed. A `forbid` for a misspelt user would forbid nothing."""
    if kind == "Tenant" and identifier not in snapshot.tenants:
        raise _refused(
            f"the policy {name} names the tenant {identifier!r}, which remit.yaml does not list",
            statement,
            "Check the spelling. If the tenant was removed, remove it here too.",
        )
    tenant, _, user = identifier.partition("/")
    if kind == "User" and user not in snapshot.tenants.get(tenant, ()):
        raise _refused(
            f"the policy {name} names the user {identifier!r}, which remit.yaml does not list",
            statement,
            f'A user is written as tenant/user, such as User::"{user_name("acme", "ann")}". Check the spelling. '
            "If the user was removed, remove it here too.",
        )
    if kind == "Action" and identifier not in snapshot.actions:
        raise UnknownActionError(
            Reason.MALFORMED,
            f"the policy {name} names the action {identifier!r}, which no simulation has as its access_action; until "
            "this is corrected, every request is denied",
            where=statement.where,
            next_step="If the simulation was removed for good, remove the action from the policy. Otherwise restore "
            "the simulation or correct the spelling. The access actions of the catalogue: "
            f"{_render_actions(snapshot.actions)}.",
        )


def _validate(statement: PolicyText, name: str, schema: "Schema", snapshot: AccessSnapshot) -> None:
    cedar = _cedar()
    with _engine():
        found = cedar.validate_policies(statement.text, schema)
        problems = [str(problem.error).replace("for policy `policy0`", "").lstrip(", :") for problem in found.errors]
        if found.validation_passed and not problems:
            return
    raise _refused(
        f"the policy {name} does not fit the schema: {'; '.join(problems[:3]) or 'the engine gives no reason'}",
        statement,
        f"Correct the policy. The access actions of the catalogue: {_render_actions(snapshot.actions)}.",
    )


def _render_actions(actions: Sequence[str]) -> str:
    return (", ".join(actions[:_MAX_LISTED]) or "none") + (", ..." if len(actions) > _MAX_LISTED else "")


def _cedar() -> ModuleType:
    with _engine():
        import cedarpy  # noqa: PLC0415 - takes 90 ms, and only goals need it

        return cedarpy


@contextmanager
def _engine() -> Iterator[None]:
    """Turn a failure of the engine into an error of Remit."""
    try:
        yield
    except BaseException as problem:
        if isinstance(problem, RefusedError) or not is_failure(problem):
            raise
        what = f"the policy engine failed: {type(problem).__name__}"
    else:
        return
    raise EnvironmentFailureError(
        Reason.INTERNAL, what, next_step="Install Remit's requirements again. If that does not help, report it."
    )


def _refused(what: str, statement: PolicyText, next_step: str) -> RefusedError:
    return RefusedError(Reason.MALFORMED, what, where=statement.where, next_step=next_step)


def policy_reasons(snapshot: AccessSnapshot, policies: Collection[str]) -> Mapping[str, str]:
    """Return the `@reason` texts of these policies, by id. Nothing else of a policy is ever shown."""
    found: dict[str, str] = {}
    for file in sorted(snapshot.files) if policies else ():
        for statement in split_policies(file, snapshot.files[file]):
            annotations = policy_tree(statement).get("annotations", {})
            name, reason = annotations.get("id"), annotations.get("reason")
            if name in policies and isinstance(reason, str) and reason.strip():
                found[name] = render_line(reason.strip())
    return found

"""The Cedar engine: policies checked and made ready, and one question put to them.

Two habits of the engine are undone here. A policy that fails while it is evaluated is skipped, so a `forbid` that fails
would forbid nothing: whoever failed is told, and the caller denies. And policies are called by their position: here
each has an `@id`, and is told by it.

What those who wrote the policies want people to read whom one stops: `@reason("...")`. Part of no answer.
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
# What the engine makes of one policy: two levels for each operator in a row. Far from where a reader would give up.
_TREE: Final = Bounds(max_bytes=4 << 20, max_depth=300)


@dataclass(frozen=True, slots=True)
class Compiled:
    """Checked policies, ready to be asked. The engine's parts are immutable."""

    policies: "PolicySet"
    schema: "Schema"
    verdicts: Mapping[str, Verdict]
    """By id, in the order of the policies."""


class UnknownActionError(RefusedError):
    """A policy names an action that the catalogue does not have, or has no more."""


class Evaluation(NamedTuple):
    """What the engine said."""

    decision: str
    policies: tuple[str, ...]
    """Those that decided, by id, sorted."""
    failed: tuple[str, ...]
    """Those that failed, by id; or what else went wrong, in a few words."""


@functools.cache
def engine_version() -> str:
    from importlib.metadata import version  # noqa: PLC0415 - heavy, and wanted only where policies are

    with _engine():
        return f"cedarpy {version('cedarpy')}"


def compile_policies(snapshot: AccessSnapshot) -> Compiled:
    """Refuses what does not validate against the schema, by file, line and policy."""
    cedar = _cedar()
    statements = [found for file in sorted(snapshot.files) for found in split_policies(file, snapshot.files[file])]
    if len(statements) > MAX_POLICIES:
        raise RefusedError(
            Reason.TOO_LARGE,
            f"there are {len(statements)} policies, and at most {MAX_POLICIES} are read",
            where=statements[MAX_POLICIES].where,
            next_step="Say more with one policy: for a tenant instead of each user, for a list of actions.",
        )
    schema = _schema(snapshot)
    verdicts: dict[str, Verdict] = {}
    for statement in statements:
        _add_statement(statement, schema, snapshot, verdicts)
    with _engine():
        # Each was read by itself, so that none can run over into the next.
        policies = cedar.PolicySet.from_str("\n".join(statement.text for statement in statements))
        if len(policies) != len(verdicts):
            raise ValueError("the engine counts other policies than were read")
    return Compiled(policies, schema, verdicts)


def find_problems(snapshot: AccessSnapshot) -> tuple[RefusedError, ...]:
    """What `compile_policies` would refuse, of every policy: one mistake does not hide the next."""
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
    except RefusedError as problem:  # of all of them together
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
    """One policy, to those that were taken before."""
    name, verdict = _read(statement, snapshot)
    if name in verdicts:
        raise _refused(f'two policies are called @id("{name}")', statement, "Give each an id of its own.")
    _validate(statement, name, schema, snapshot)
    verdicts[name] = verdict


def evaluate(compiled: Compiled, question: CedarQuestion) -> Evaluation:
    """One question. What the engine raises is raised."""
    answer = _cedar().is_authorized(question.request, compiled.policies, question.entities, compiled.schema)
    names = answer.diagnostics.id_annotations_by_reason
    failed = tuple(sorted({_find_failed_policy(error, list(compiled.verdicts)) for error in answer.diagnostics.errors}))
    # By subscript: a policy without a name is none of those that were read.
    decided = tuple(sorted(names[reason] for reason in answer.diagnostics.reasons))
    return Evaluation(answer.decision.value, decided, failed)


def is_failure(problem: BaseException) -> bool:
    """Whether this is a failure of the engine. Its panics are no `Exception`; a keyboard interrupt is none of its."""
    return isinstance(problem, Exception) or type(problem).__name__ == "PanicException"


def _find_failed_policy(error: str, names: list[str]) -> str:
    """Without the engine's words, which quote the values of fields."""
    found = _FAILED.match(error)
    return names[int(found[1])] if found and int(found[1]) < len(names) else "the question does not fit the schema"


def _read(statement: PolicyText, snapshot: AccessSnapshot) -> tuple[str, Verdict]:
    """The id of a policy, and what it says when it applies."""
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
        # A misspelt @verdict would make a plain permit of what needs an approval.
        raise _refused(
            f"the policy {name} has an annotation that is not known here: @{unknown[0]}",
            statement,
            "Use @id, @verdict, @reason and @description.",
        )
    for kind, identifier in _named_entities(tree):
        _require_listed(kind, identifier, name, statement, snapshot)
    if "verdict" not in annotations:
        return name, "forbid" if tree["effect"] == "forbid" else "permit"
    if tree["effect"] != "permit" or annotations["verdict"] != APPROVAL:
        raise _refused(
            f"the policy {name} has a @verdict that is not known here",
            statement,
            f'Write @verdict("{APPROVAL}") before a permit; or leave it out, for a plain permit or a forbid.',
        )
    return name, APPROVAL


def policy_tree(statement: PolicyText) -> dict[str, Any]:
    """A policy as JSON."""
    cedar = _cedar()
    with _engine():
        try:
            text: str = cedar.policies_to_json_str(statement.text)
        except ValueError as problem:
            raise _refused(
                f"this is not a Cedar policy: {problem}", statement, "Mend it, from the line on that is named."
            ) from None
    try:
        found = parse_json(text.encode(), _TREE, source=statement.where)
    except RefusedError as problem:
        raise _refused(
            "the policy has too many operators in a row", statement, "Split it into several policies."
        ) from problem
    if found["templates"] or len(found["staticPolicies"]) != 1:
        # A template without a link says nothing, so one that forbids would forbid nothing.
        raise _refused(
            "this is a template, with a ?principal or a ?resource to be filled in",
            statement,
            'Name whom it is about, such as `principal in Tenant::"acme"`.',
        )
    [policy] = found["staticPolicies"].values()
    return dict(policy)


def _named_entities(tree: Any) -> Iterator[tuple[str, str]]:
    """The entities that a policy names. In Cedar's JSON nothing else has a type and an id that are texts."""
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
    """A `forbid` for a misspelt user would forbid nobody."""
    if kind == "Tenant" and identifier not in snapshot.tenants:
        raise _refused(
            f"the policy {name} names the tenant {identifier!r}, whom remit.yaml does not list",
            statement,
            "Check the spelling; a tenant that is gone must go here too.",
        )
    tenant, _, user = identifier.partition("/")
    if kind == "User" and user not in snapshot.tenants.get(tenant, ()):
        raise _refused(
            f"the policy {name} names the user {identifier!r}, whom remit.yaml does not list",
            statement,
            f'A user is written as tenant/user, such as User::"{user_name("acme", "ann")}". Check the spelling; '
            "a user who is gone must go here too.",
        )
    if kind == "Action" and identifier not in snapshot.actions:
        raise UnknownActionError(
            Reason.MALFORMED,
            f"the policy {name} names the action {identifier!r}, which no simulation has as its access_action; until "
            "that is mended, everybody is denied everything",
            where=statement.where,
            next_step="If its simulation is gone for good, take the action out of the policy; else put the simulation "
            f"back, or check the spelling. The access actions of the catalogue: {_render_actions(snapshot.actions)}.",
        )


def _validate(statement: PolicyText, name: str, schema: "Schema", snapshot: AccessSnapshot) -> None:
    cedar = _cedar()
    with _engine():
        found = cedar.validate_policies(statement.text, schema)
        problems = [str(problem.error).replace("for policy `policy0`", "").lstrip(", :") for problem in found.errors]
        if found.validation_passed and not problems:
            return
    raise _refused(
        f"the policy {name} does not fit the schema: {'; '.join(problems[:3]) or 'the engine does not say why'}",
        statement,
        f"Mend it. The access actions of the catalogue: {_render_actions(snapshot.actions)}.",
    )


def _render_actions(actions: Sequence[str]) -> str:
    return (", ".join(actions[:_MAX_LISTED]) or "none") + (", ..." if len(actions) > _MAX_LISTED else "")


def _cedar() -> ModuleType:
    with _engine():
        import cedarpy  # noqa: PLC0415 - 90 ms, and wanted by the goal door only

        return cedarpy


@contextmanager
def _engine() -> Iterator[None]:
    """What goes wrong in the engine, as an error of ours."""
    try:
        yield
    except BaseException as problem:
        if isinstance(problem, RefusedError) or not is_failure(problem):
            raise
        what = f"the policy engine failed: {type(problem).__name__}"
    else:
        return
    raise EnvironmentFailureError(
        Reason.INTERNAL, what, next_step="Install Remit's requirements again; if that does not help, report it."
    )


def _refused(what: str, statement: PolicyText, next_step: str) -> RefusedError:
    return RefusedError(Reason.MALFORMED, what, where=statement.where, next_step=next_step)


def policy_reasons(snapshot: AccessSnapshot, policies: Collection[str]) -> Mapping[str, str]:
    """By id, for those of these policies that give one. Nothing else of a policy is ever shown."""
    found: dict[str, str] = {}
    for file in sorted(snapshot.files) if policies else ():
        for statement in split_policies(file, snapshot.files[file]):
            annotations = policy_tree(statement).get("annotations", {})
            name, reason = annotations.get("id"), annotations.get("reason")
            if name in policies and isinstance(reason, str) and reason.strip():
                found[name] = render_line(reason.strip())
    return found

"""The access decision: Cedar policies say whether a user of a tenant may run a simulation. Every doubt denies.

A policy permits, forbids, or permits with `@verdict("approval_required")`. The strictest policy that applies decides,
and if none applies, the request is denied. It is also denied if a policy failed while it was evaluated, if the question
does not fit the schema, if there are no policies, and if the engine itself fails.

An answer depends on `AccessPolicy.document()` only, and on no clock, disk or state. So an old decision can be made
again from the document that it names, and must be the same.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import JsonValue

from remit.contracts.goals.access import AccessSnapshot
from remit.core.canonical import digest
from remit.core.errors import RefusedError, render_line
from remit.goals.access.cedar import (
    APPROVAL,
    Compiled,
    compile_policies,
    engine_version,
    evaluate,
    find_problems,
    is_failure,
)
from remit.goals.access.cedar_schema import SCHEMA_VERSION, UnsupportedFieldError, cedar_question

AccessVerdict = Literal["ALLOWED", "DENIED", "APPROVAL_REQUIRED"]
AccessCode = Literal["ACCESS_ALLOWED", "ACCESS_SCOPE_VIOLATION", "ACCESS_AP_REQUIRED"]

_CODES: Final[dict[AccessVerdict, AccessCode]] = {
    "ALLOWED": "ACCESS_ALLOWED",
    "DENIED": "ACCESS_SCOPE_VIOLATION",
    "APPROVAL_REQUIRED": "ACCESS_AP_REQUIRED",
}


@dataclass(frozen=True, slots=True)
class AccessQuestion:
    """The request of one user. The fields are those of the later run, already checked against their types."""

    tenant_id: str
    user_id: str
    access_action: str
    simulation_id: str
    impact: str
    risk: str
    language: str
    fields: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class AccessAnswer:
    verdict: AccessVerdict
    reason_code: AccessCode
    policies: tuple[str, ...]
    """The ids of the policies that decided, sorted. Empty if no policy applied or if the answer had another reason."""
    why: str
    """A reason for people, without ids and values of the question."""


_QUESTION_FIELDS: Final = tuple(AccessQuestion.__dataclass_fields__)
MAX_ANSWERS: Final = 256


class AccessPolicy:
    """The policies of one moment. Immutable, so one object can answer many questions in many threads."""

    __slots__ = ("_answers", "_compiled", "_snapshot", "ref")

    ref: str
    """The digest of the document."""

    def __init__(self, snapshot: AccessSnapshot) -> None:
        self._snapshot = snapshot
        self._compiled: Compiled | None = compile_policies(snapshot) if snapshot.files else None
        self._answers: dict[str, AccessAnswer] = {}
        self.ref = digest(snapshot.tree())

    def document(self) -> dict[str, Any]:
        """Return everything that an answer depends on, as plain JSON."""
        return self._snapshot.tree()

    @classmethod
    def from_document(cls, tree: Any) -> "AccessPolicy":
        """Load the same policies again, with the same `ref`. Refuses another document, and one that is now invalid."""
        return cls(AccessSnapshot.from_tree(tree, source="access snapshot"))

    @property
    def engine_changed(self) -> bool:
        """Whether the engine is another version than the one in the document. Answers may then differ: compare them."""
        return self._snapshot.engine != engine_version()

    def decide(self, question: AccessQuestion) -> AccessAnswer:
        """Decide a question. Never raises: a failure is DENIED, and `why` gives the reason."""
        try:
            return self._answer(question)
        except UnsupportedFieldError as problem:
            return _denied(f"{problem}, so no policy can decide about it")
        except BaseException as problem:
            if not is_failure(problem):
                raise
            # Only the type of the problem: the message of the engine quotes the question.
            return _denied(f"the policy engine failed: {type(problem).__name__}")

    def _answer(self, question: AccessQuestion) -> AccessAnswer:
        """Answer from the cache. One dispatch asks the same question several times. Failures are not stored."""
        key = json.dumps(
            [getattr(question, name) for name in _QUESTION_FIELDS], sort_keys=True
        )  # 1 and 1.0 are not the same
        found = self._answers.get(key)
        if found is None:
            found = self._decide(question)
            if len(self._answers) >= MAX_ANSWERS:
                self._answers.clear()
            self._answers[key] = found
        return found

    def _decide(self, question: AccessQuestion) -> AccessAnswer:
        if question.user_id not in self._snapshot.tenants.get(question.tenant_id, ()):
            return _denied("this user is not listed for this tenant")
        if self._compiled is None:
            return _denied("there are no access policies")
        evaluation = evaluate(
            self._compiled,
            cedar_question(
                tenant_id=question.tenant_id,
                user_id=question.user_id,
                access_action=question.access_action,
                simulation_id=question.simulation_id,
                impact=question.impact,
                risk=question.risk,
                language=question.language,
                fields=question.fields,
            ),
        )
        verdicts = self._compiled.verdicts
        if evaluation.failed:
            return _denied(
                f"not every policy could be evaluated: {', '.join(evaluation.failed)}", evaluation.failed, verdicts
            )
        if evaluation.decision != "Allow":
            return _denied(
                "a policy forbids it" if evaluation.policies else "no policy permits it", evaluation.policies, verdicts
            )
        permits = tuple(name for name in evaluation.policies if verdicts[name] == "permit")
        needing = tuple(name for name in evaluation.policies if verdicts[name] == APPROVAL)
        if needing:
            return _answer("APPROVAL_REQUIRED", needing, "a policy permits it with an approval")
        if permits and permits == evaluation.policies:
            return _answer("ALLOWED", permits, "a policy permits it")
        return _denied("the engine allows it, but names no policy that permits it")


def build_access_policy(
    files: Mapping[str, str], tenants: Mapping[str, Collection[str]], actions: Collection[str]
) -> AccessPolicy:
    """Build the policy from the text of the policy files, the users of each tenant, and the catalogue's access actions.

    Raises:
        RefusedError: A file is invalid. Either all policies are in force, or none.
    """
    return AccessPolicy(_snapshot(files, tenants, actions))


def find_policy_problems(
    files: Mapping[str, str], tenants: Mapping[str, Collection[str]], actions: Collection[str]
) -> tuple[RefusedError, ...]:
    """Return all problems for which `build_access_policy` would refuse. That function reports only the first."""
    try:
        return find_problems(_snapshot(files, tenants, actions)) if files else ()
    except RefusedError as problem:
        return (problem,)


def _snapshot(
    files: Mapping[str, str], tenants: Mapping[str, Collection[str]], actions: Collection[str]
) -> AccessSnapshot:
    tree = {
        "version": 1,
        "engine": engine_version(),
        "schema_version": SCHEMA_VERSION,
        "actions": sorted(set(actions)),
        "tenants": {tenant: sorted(set(users)) for tenant, users in tenants.items()},
        "files": dict(files),
    }
    return AccessSnapshot.from_tree(tree, source="access policies")


def _denied(why: str, policies: tuple[str, ...] = (), known: Collection[str] = ()) -> AccessAnswer:
    return _answer("DENIED", tuple(name for name in policies if name in known), why)


def _answer(verdict: AccessVerdict, policies: tuple[str, ...], why: str) -> AccessAnswer:
    return AccessAnswer(verdict, _CODES[verdict], policies, render_line(why))

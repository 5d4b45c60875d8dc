"""The exceptions that the approval of a plan must name, and whether it names them. Pure."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from remit.contracts.plans.envelope import Approvals
from remit.contracts.plans.preview import FindingRule
from remit.core.errors import Reason
from remit.execution.decision import Denial
from remit.fs.paths import plain_spelling

NO_APPROVALS: Final = Approvals(protected=(), executable=(), content=(), irreversible=())


class PathFinding(NamedTuple):
    """Something in the new content of a file that the approval must name."""

    path: str
    rule: FindingRule
    where: str
    what: str


class Needed(NamedTuple):
    """What an approval must name according to the plan alone, before any content was read."""

    protected: tuple[str, ...] = ()
    """Paths, each in its normal spelling."""
    irreversible: tuple[str, ...] = ()
    """Action ids."""


def uncovered(findings: Sequence[PathFinding], needed: Needed, approvals: Approvals) -> tuple[Denial, ...]:
    """Return one denial for each needed exception that the approval does not name."""
    return (
        *_uncovered_paths(needed, approvals),
        *_uncovered_actions(needed, approvals),
        *_uncovered_findings(findings, approvals),
    )


def _uncovered_paths(needed: Needed, approvals: Approvals) -> list[Denial]:
    approved = _spelled(approvals.protected)
    return [
        Denial(
            Reason.PROTECTED,
            "this file is protected, and the approval does not name it",
            where=path,
            next_step=f"Approve the plan with --allow-protected {path!r} if it is meant to be changed or read.",
        )
        for path in needed.protected
        if path not in approved
    ]


def _uncovered_actions(needed: Needed, approvals: Approvals) -> list[Denial]:
    return [
        Denial(
            Reason.IRREVERSIBLE,
            "this action cannot be undone, and the approval does not name it",
            where=f"action {action_id}",
            next_step=f"Approve the plan with --allow-irreversible {action_id!r} if it is meant to run.",
        )
        for action_id in needed.irreversible
        if action_id not in approvals.irreversible
    ]


def _uncovered_findings(findings: Sequence[PathFinding], approvals: Approvals) -> list[Denial]:
    executable, content = _spelled(approvals.executable), _spelled(approvals.content)
    denials = []
    for finding in findings:
        is_executable = finding.rule == "executable"
        if plain_spelling(finding.path) in (executable if is_executable else content):
            continue
        option = "--allow-executable" if is_executable else "--allow-content"
        place = f"{finding.path}, {finding.where}" if finding.where else finding.path
        denials.append(
            Denial(
                Reason.EXECUTABLE_REFUSED if is_executable else Reason.CONTENT_REFUSED,
                f"{finding.what} ({finding.rule})",
                where=place,
                next_step=f"Change the content, or approve the plan with {option} {finding.path!r}.",
            )
        )
    return denials


def _spelled(paths: Sequence[str]) -> frozenset[str]:
    return frozenset(map(plain_spelling, paths))

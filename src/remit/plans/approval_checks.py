"""Checks of an approval, when it is given and when it is used.

When it is given, the plan must be worth approving, and every allowance must be needed. When it is used, the files and
rows must be as they were when the plan was approved.
"""

from collections.abc import Iterable, Iterator

from remit.contracts.plans.envelope import Approvals, ApprovedInput, Envelope
from remit.core.errors import Reason, RefusedError
from remit.fs.paths import plain_spelling
from remit.plans.preparation.remote_sql import is_bound_server
from remit.plans.preview.document import PlanPreview


def is_worth_approving(preview: PlanPreview, *, even_if_it_fails: bool) -> bool:
    """Return whether no action would fail; or, with `even_if_it_fails`, whether the other actions would be done."""
    fails = bool(preview.problems)
    return not fails or (even_if_it_fails and not preview.doomed)


def require_applicable(preview: PlanPreview, *, even_if_it_fails: bool) -> None:
    """Refuse a plan of which an action would fail.

    With `even_if_it_fails`, refuse it only if the plan would stop at its first error.
    """
    if is_worth_approving(preview, even_if_it_fails=even_if_it_fails):
        return
    problem = preview.problems[0]
    next_step = problem["next_step"]
    if not preview.doomed:
        next_step = "Fix the plan, or approve it even if it fails: even_if_it_fails=True"
    raise RefusedError(
        Reason(problem["reason"]),
        f"the plan would fail: {problem['what']}",
        where=problem["where"],
        next_step=next_step,
    )


def reject_unused_allowances(preview: PlanPreview, approvals: Approvals) -> None:
    """Refuse an allowance that the plan does not need. It is most likely a typing error."""
    known = {
        "protected": set(preview.needs.protected),
        "executable": {found.path for found in preview.findings if found.rule == "executable"},
        "content": {found.path for found in preview.findings if found.rule != "executable"},
        "irreversible": set(preview.needs.irreversible),
    }
    for kind, names in approvals.tree().items():
        for name in names:
            spelled = name if kind == "irreversible" else plain_spelling(name)
            if spelled not in known[kind]:
                raise RefusedError(
                    Reason.ARGUMENT_INVALID,
                    f"the plan needs no approval of this kind ({kind}) for this name",
                    where=name,
                    next_step="Leave it out. The preview lists what the plan needs.",
                )


def require_same_inputs(envelope: Envelope, preview: PlanPreview) -> None:
    """Refuse the approval if a file is new or differs from the approved one. A missing file only fails its action."""
    for path, how in differences(envelope, preview.inputs):
        raise RefusedError(
            Reason.BINDING_MISMATCH,
            how,
            where=path,
            next_step="Restore it to its approved state and apply again. Or preview the plan again with `remit preview`"
            " and approve it again. A proposed plan must be proposed again.",
        )


def differences(envelope: Envelope, inputs: Iterable[ApprovedInput]) -> Iterator[tuple[str, str]]:
    """Yield each path that differs from the approved state, and how it differs. A run is refused for the first one."""
    return input_differences(envelope.inputs, inputs, "the plan was approved")


def input_differences(
    before: Iterable[ApprovedInput], now: Iterable[ApprovedInput], when: str
) -> Iterator[tuple[str, str]]:
    """Yield each path of `now` that differs from `before`, and how it differs. `when` names the time of `before`."""
    known = {item.path: item for item in before}
    for item in sorted(now, key=lambda item: is_bound_server(item.path)):  # files first: they help more than a digest
        if how := _how_it_differs(known.get(item.path), item, when):
            yield item.path, how


def _how_it_differs(approved: ApprovedInput | None, found: ApprovedInput, when: str) -> str:
    """Return the difference as text, or an empty text."""
    if is_bound_server(found.path) and (approved is None or approved.input_digest != found.input_digest):
        return "the rows that this plan would change are not those that were approved"
    if approved is None:
        return f"this file did not exist when {when}"
    if approved.input_digest != found.input_digest:
        return f"this file was changed since {when}"
    if approved.mode != found.mode:
        then = f"they were {approved.mode}" if approved.mode else "they were not recorded"
        return f"the permissions of this file are {found.mode}; when {when}, {then}"
    return ""

"""What makes an approval one that somebody can have meant: the plan would do something, and all that is allowed is
needed; and when it is used, that it was for the world as it is.
"""

from collections.abc import Iterable, Iterator

from remit.contracts.plans.envelope import Approvals, ApprovedInput, Envelope
from remit.core.errors import Reason, RefusedError
from remit.fs.paths import plain_spelling
from remit.plans.preparation.remote_sql import is_bound_server
from remit.plans.preview.document import PlanPreview


def is_worth_approving(preview: PlanPreview, *, even_if_it_fails: bool) -> bool:
    """Whether nothing of it would fail; or something, with the rest done, and that is what somebody asked for."""
    fails = bool(preview.problems)
    return not fails or (even_if_it_fails and not preview.doomed)


def require_applicable(preview: PlanPreview, *, even_if_it_fails: bool) -> None:
    """A plan that stops at errors and has one is never approved; one that goes on, if it is asked for by name."""
    if is_worth_approving(preview, even_if_it_fails=even_if_it_fails):
        return
    problem = preview.problems[0]
    next_step = problem["next_step"]
    if not preview.doomed:
        next_step = "Mend the plan; or approve it even if it fails: even_if_it_fails=True"
    raise RefusedError(
        Reason(problem["reason"]),
        f"the plan would fail: {problem['what']}",
        where=problem["where"],
        next_step=next_step,
    )


def reject_unused_allowances(preview: PlanPreview, approvals: Approvals) -> None:
    """What is allowed and not needed is a mistake: most likely a name that was mistyped."""
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
                    Reason.MISUSE,
                    f"the plan needs no approval of this kind ({kind}) for that",
                    where=name,
                    next_step="Leave it out. The preview lists what the plan needs.",
                )


def require_same_inputs(envelope: Envelope, preview: PlanPreview) -> None:
    """A file that is gone fails its action; one that is another, or new, was never approved."""
    for path, how in differences(envelope, preview.inputs):
        raise RefusedError(
            Reason.BINDING_MISMATCH,
            how,
            where=path,
            next_step="Put it back as it was, and the approval counts again. Or look at the plan again, with `remit"
            " preview`, and approve it again; a proposed plan has to be proposed again.",
        )


def differences(envelope: Envelope, inputs: Iterable[ApprovedInput]) -> Iterator[tuple[str, str]]:
    """What is not as it was approved: which path, and how it differs. The first one is why a run is refused."""
    return input_differences(envelope.inputs, inputs, "the plan was approved")


def input_differences(
    before: Iterable[ApprovedInput], now: Iterable[ApprovedInput], when: str
) -> Iterator[tuple[str, str]]:
    """Which paths of `now` are not as they were `before`, and how each differs; `when` says in words when that was."""
    known = {item.path: item for item in before}
    for item in sorted(now, key=lambda item: is_bound_server(item.path)):  # a file tells more than a digest
        if how := _how_it_differs(known.get(item.path), item, when):
            yield item.path, how


def _how_it_differs(approved: ApprovedInput | None, found: ApprovedInput, when: str) -> str:
    """In words, or nothing."""
    if is_bound_server(found.path) and (approved is None or approved.input_digest != found.input_digest):
        return "the rows that this plan would change are not those that were approved"
    if approved is None:
        return f"this file was not there when {when}"
    if approved.input_digest != found.input_digest:
        return f"this file was changed since {when}"
    if approved.mode != found.mode:
        then = f"they were {approved.mode}" if approved.mode else "nobody looked at them then"
        return f"the permissions of this file are {found.mode}; when {when}, {then}"
    return ""

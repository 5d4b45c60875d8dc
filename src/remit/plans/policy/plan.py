"""Decides whether a plan may run, as far as the plan and the configuration show it. Reads no file. Pure."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from remit.contracts.config.config import SystemConfig
from remit.contracts.plans.envelope import Approvals
from remit.contracts.plans.operations import ReplaceContent
from remit.contracts.plans.plan import Action, FileRename, PipelineAction, Plan, SqlAction
from remit.contracts.plans.validation_rules import MatchesJsonSchema, SqlExpect
from remit.core.errors import Reason, RefusedError
from remit.execution.decision import Denial, PolicyDecision
from remit.execution.protected_paths import is_forbidden, protecting_group
from remit.fs.paths import Located, locate_below, plain_spelling
from remit.plans.policy.dependencies import order_actions
from remit.plans.policy.pipelines import find_pipeline_denials, is_reversible
from remit.plans.policy.required_approvals import Needed, uncovered
from remit.plans.policy.sql import (
    changed_paths,
    find_rule_denials,
    find_sql_denials,
    named_paths,
    read_paths,
    rule_database,
    touched_by,
    written_paths,
)
from remit.plans.policy.timeouts import find_timeout_denials

MAX_PLAN_PATH_BYTES: Final = 256 << 10
"""The limit for all paths together, counted each time one is named. The ledger entry of the plan holds them."""
MAX_PROTECTED: Final = 1_000
"""The number of files that an approval can name."""


def decide_plan(plan: Plan, config: SystemConfig, root: str, approvals: Approvals | None) -> PolicyDecision:
    """Apply every rule, so that a refusal names all faults. Without `approvals`, protected files are not denied yet."""
    if too_much := tuple(_check_limits(plan, config)):
        return PolicyDecision(denials=too_much)  # a plan past the limits causes no more work
    denials = [
        *_check_replaced_hash_given(plan),
        *find_sql_denials(plan, config),
        *find_pipeline_denials(plan, config),
        *find_rule_denials(plan, config),
    ]
    denials += [*_check_paths(plan, config, root), *_check_order(plan, config), *find_timeout_denials(plan, config)]
    needed = needed_approvals(plan, config)
    if len(needed.protected) > MAX_PROTECTED:
        denials.append(
            Denial(
                Reason.LIMIT_EXCEEDED,
                f"the plan names {len(needed.protected):,} protected files, and an approval at most {MAX_PROTECTED:,}",
                where="validation_rules",
                next_step="Split it into several plans.",
            )
        )
    elif approvals is not None:
        denials += uncovered((), needed, approvals)
    if denials:
        return PolicyDecision(denials=tuple(denials))
    return PolicyDecision((f"each of {len(plan.action_plan)} actions is known here, and every path is below the root",))


def needed_approvals(plan: Plan, config: SystemConfig) -> Needed:
    """Return what the approval must name, in the order of the plan."""
    changed = (path for action in plan.action_plan for path in named_paths(action, config))
    # A rule only reads, but its result reveals something about the content of the file. So do the rows of a query.
    read = (plain_spelling(path) for _, path in _rule_paths(plan, config))
    named = dict.fromkeys(itertools.chain(changed, read))
    return Needed(
        protected=tuple(path for path in named if protecting_group(path, config)),
        irreversible=tuple(
            action.action_id
            for action in plan.action_plan
            if isinstance(action, PipelineAction) and not is_reversible(action, config)
        ),
    )


def paths_of(plan: Plan, config: SystemConfig, root: str) -> tuple[Located, ...]:
    """Return each file that the plan changes once, in the order of the plan. Refuses a path outside of the root."""
    named = (path for action in plan.action_plan for path in _written_paths(action, config))
    return tuple(dict.fromkeys(locate_below(root, path) for path in named))


def _check_replaced_hash_given(plan: Plan) -> Iterator[Denial]:
    for action in plan.action_plan:
        if isinstance(action.operation, ReplaceContent) and action.expected_hash_before is None:
            yield Denial(
                Reason.MALFORMED,
                "an action that replaces a whole file must give the hash of the file that it replaces",
                where=_location_of(action, "expected_hash_before"),
                next_step="Give the hash of the current file, `sha256:` and 64 digits.",
            )


def _check_paths(plan: Plan, config: SystemConfig, root: str) -> Iterator[Denial]:
    located: dict[tuple[str, ...], str] = {}
    for action in plan.action_plan:
        places = []
        for path in _written_paths(action, config):
            try:
                place = locate_below(root, path)
            except RefusedError as problem:
                yield _denial_of(problem, action)
                continue
            places.append(place)
            located.setdefault((*place.parents, place.name), action.action_id)
            if why := is_forbidden(place.below, config):
                yield Denial(Reason.PATH_REFUSED, why, where=path, next_step="Leave this action out.")
        if len(places) > len(set(places)):
            yield Denial(
                Reason.PATH_REFUSED,
                "a file cannot be renamed to itself",
                where=_location_of(action, "new_path"),
                next_step="Name another path.",
            )
        if isinstance(action, SqlAction | PipelineAction):
            yield from _check_read_paths(action, config, root)
    yield from _check_rule_paths(plan, config, root)
    yield from _files_as_folders(located)


def _check_read_paths(action: SqlAction | PipelineAction, config: SystemConfig, root: str) -> Iterator[Denial]:
    """Check that the files that an action only reads are also below the root, and are not Remit's own."""
    for path in read_paths(action, config):
        try:
            place = locate_below(root, path)
        except RefusedError as problem:
            yield _denial_of(problem, action)
            continue
        if why := is_forbidden(place.below, config):
            yield Denial(Reason.PATH_REFUSED, why, where=path, next_step="Leave this action out.")


def _check_rule_paths(plan: Plan, config: SystemConfig, root: str) -> Iterator[Denial]:
    """Check that rules, which only read, name nothing outside of the root and none of the copies that Remit keeps."""
    for number, path in _rule_paths(plan, config):
        try:
            place = locate_below(root, path)
        except RefusedError as problem:
            where = f"validation_rules, {number}: {problem.where}"
            yield Denial(problem.reason, problem.what, where, problem.next_step)
            continue
        if why := is_forbidden(place.below, config):
            where = f"validation_rules, {number}: {path}"
            yield Denial(Reason.PATH_REFUSED, why, where=where, next_step="Leave this rule out.")


def _rule_paths(plan: Plan, config: SystemConfig) -> Iterator[tuple[int, str]]:
    """Yield the number of each rule and the files that it reads, as the plan or the configuration spells them."""
    for number, rule in enumerate(plan.validation_rules):
        if isinstance(rule, SqlExpect):
            if (database := rule_database(rule, config)) is not None:
                yield number, database
            continue
        yield number, rule.path
        if isinstance(rule, MatchesJsonSchema) and rule.schema_file is not None:
            yield number, rule.schema_file


def _files_as_folders(located: Mapping[tuple[str, ...], str]) -> Iterator[Denial]:
    # In sorted order, the paths below a path follow directly after it.
    for above, below in itertools.pairwise(sorted(located)):
        if below[: len(above)] == above:
            yield Denial(
                Reason.PATH_REFUSED,
                f"this plan uses {'/'.join(above)} both as a file and as a folder",
                where=f"action {located[below]}, {'/'.join(below)}",
                next_step="Split it into two plans.",
            )


def _check_limits(plan: Plan, config: SystemConfig) -> Iterator[Denial]:
    # The new name of a rename adds no file: a renamed file is one file.
    counted = ((action, changed_paths(action, config)) for action in plan.action_plan)
    files = {path for action, paths in counted for path in (paths[:1] if isinstance(action, FileRename) else paths)}
    if len(files) > config.limits.max_files:
        yield Denial(
            Reason.LIMIT_EXCEEDED,
            f"the plan changes {len(files)} files, and {config.limits.max_files} are allowed",
            where="action_plan",
            next_step="Split it into several plans.",
        )
    written = (path for action in plan.action_plan for path in _all_paths(action, config))
    read = (path for _, path in _rule_paths(plan, config))
    size = sum(len(path.encode("utf-8", "replace")) for path in itertools.chain(written, read))
    if size > MAX_PLAN_PATH_BYTES:
        yield Denial(
            Reason.LIMIT_EXCEEDED,
            f"the paths of the plan have {size:,} bytes together, and {MAX_PLAN_PATH_BYTES:,} are allowed",
            where="action_plan",
            next_step="Split it into several plans.",
        )


def _check_order(plan: Plan, config: SystemConfig) -> Iterator[Denial]:
    try:
        order_actions(plan.action_plan, touched_by(config))
    except RefusedError as problem:
        yield Denial(problem.reason, problem.what, problem.where, problem.next_step)


def _all_paths(action: Action, config: SystemConfig) -> Sequence[str]:
    reads_too = isinstance(action, SqlAction | PipelineAction)
    return named_paths(action, config) if reads_too else _written_paths(action, config)


def _written_paths(action: Action, config: SystemConfig) -> Sequence[str]:
    """Return the files that an action writes, as the plan or the configuration spells them."""
    if isinstance(action, SqlAction | PipelineAction):
        return written_paths(action, config)
    named = [action.target]
    if isinstance(action, FileRename):
        named.append(action.operation.new_path)
    return named


def _denial_of(problem: RefusedError, action: Action) -> Denial:
    return Denial(problem.reason, problem.what, f"action {action.action_id}, {problem.where!r}", problem.next_step)


def _location_of(action: Action, field: str) -> str:
    return f"action {action.action_id}, {field}"

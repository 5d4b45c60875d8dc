"""Checks the rules of a plan after its steps. Read-only.

The rules come with the plan, and the paths that they name are in its `paths`. The folders come as spots.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from remit.core.errors import Reason, RefusedError, UsageError
from remit.effects.context import EffectContext
from remit.effects.plans.files import read_file, read_plan, spot_of, state_of
from remit.effects.plans.steps import StepPlan
from remit.fs.openat import exists

ROWS: Final = "sql_expect"
"""The type of rules about rows of a database. They are checked by other modules, because they need a database engine.
"""

Content = Callable[[str], bytes | None]
"""A function that returns the bytes of a path in a rule, or None if there is no file."""
Judge = Callable[[Mapping[str, Any], Content], str]
"""A function from rule and content to the reason why the rule does not hold. The reason is empty if it holds."""


class RuleCheck:
    """The check of all rules, with one judge for each type of rule."""

    def __init__(self, judges: Mapping[str, Judge]) -> None:
        self._judges = judges

    def run(self, work: EffectContext) -> dict[str, Any]:
        """Raise `RefusedError` with the first rule that does not hold."""
        plan = read_plan(work)

        def content(path: str) -> bytes | None:
            return _content(work, plan, path)

        for place, rule in enumerate(plan.rules, start=1):
            why = self._judge(rule, content) if rule.get("type") != ROWS else ""
            if why:
                raise RefusedError(
                    Reason.RULE_FAILED,
                    f"rule {place} of {len(plan.rules)} ({rule['type']}) does not hold: {why}",
                    where=str(rule.get("path", "")),
                    next_step="Fix the plan or the rule, and have the plan approved again.",
                )
        return {}

    def settle(self, work: EffectContext, *, finish: bool) -> dict[str, Any] | None:  # noqa: ARG002
        return None

    def _judge(self, rule: Mapping[str, Any], content: Content) -> str:
        kind = str(rule.get("type"))
        if kind not in self._judges:
            raise UsageError(Reason.MISUSE, f"this process cannot check a rule of the type {kind!r}")
        try:
            return self._judges[kind](rule, content)
        except (
            RefusedError
        ) as problem:  # the file cannot be read: a link, a broken document, a path that selects two values
            return problem.what


def _content(work: EffectContext, plan: StepPlan, path: str) -> bytes | None:
    if path not in plan.paths:
        raise UsageError(Reason.MISUSE, "a rule names a path that is not in the plan's paths", where=path)
    spot = spot_of(work, plan.paths.index(path))
    if spot is None or not exists(spot.folder, spot.name):
        return None
    return read_file(spot, plan.max_file_bytes, where=path).content


# --- rules that need no parser ---------------------------------------------------------------------------------------


def judge_exists(rule: Mapping[str, Any], content: Content) -> str:
    return "" if content(rule["path"]) is not None else "the file does not exist"


def judge_absent(rule: Mapping[str, Any], content: Content) -> str:
    try:
        found = content(rule["path"]) is not None
    except RefusedError:  # something exists at the path, even if it is not a regular file
        found = True
    return "the path exists" if found else ""


def judge_hash(rule: Mapping[str, Any], content: Content) -> str:
    found = content(rule["path"])
    if found is None:
        return "the file does not exist"
    digest = state_of(found, 0).sha256
    return "" if digest == rule["digest"] else f"the file has {digest}, not {rule['digest']}"


PLAIN_JUDGES: Final[Mapping[str, Judge]] = {
    "file_exists": judge_exists,
    "file_absent": judge_absent,
    "hash": judge_hash,
}

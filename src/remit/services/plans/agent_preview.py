"""The preview of a plan for its agent. It repeats what the agent sent, and contains nothing of any file or row. Pure.

A preview is read access. An agent that may propose a plan may not read files. A diff, a digest, a count, an error and
even "no match" would tell it what a file contains. So this module uses only the plan and the configuration: two
workspaces that differ only in the content of files and rows give the same document.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from remit.contracts.base import RiskLevel
from remit.contracts.config.config import SystemConfig
from remit.contracts.plans.agent_views import (
    AgentNeededApprovals,
    AgentPlanPreview,
    AgentPreviewedFile,
    AgentPreviewedPipeline,
    AgentPreviewedSql,
)
from remit.contracts.plans.change_log import FileOperation
from remit.contracts.plans.plan import Action, FileCreate, FileDelete, FileRename, PipelineAction, Plan, SqlAction
from remit.contracts.plans.preview import MAX_FINDINGS, PreviewedFinding
from remit.contracts.plans.sql_report import MAX_SQL_SHOWN
from remit.contracts.plans.validation_rules import MatchesJsonSchema, SqlExpect, ValidationRule
from remit.core.canonical import digest_bytes
from remit.core.errors import mask_for_review
from remit.core.text import counted
from remit.effects.edits.data_files import PLAIN_CHECKS, ContentFinding
from remit.effects.edits.splice import Edited
from remit.effects.edits.whole_file import content_of
from remit.effects.plans.content_scan import find_in_added, find_in_final
from remit.effects.plans.diff import BINARY, diff_whole
from remit.fs.paths import plain_spelling
from remit.plans.model.parameters import show_parameters
from remit.plans.model.simulation_result import show_diff, show_sql
from remit.plans.policy.plan import needed_approvals
from remit.plans.preview.document import MANY_FILES, RISKS, replaces_document
from remit.services.plans.agent_sql import destroys_by_its_text, irreversible_by_text

WITHHELD: Final = (
    "An agent sees only what it sent itself. A person sees the diff, the results, the counts and what would fail, and"
    " decides. Null means that a value is withheld. It does not mean none. This answer does not depend on the content"
    " of files and rows."
)
NOT_COMPUTED: Final = (
    "No preview is stored. This is what the text of the plan says. Its effect on files and rows is not known. Null"
    " means that a value is not known."
)
MAX_SHOWN: Final = 1 << 20
"""The most characters of the agent's own content that its preview repeats."""
_OPERATIONS: Final[dict[str, FileOperation]] = {
    "FILE_CREATE": "CREATE",
    "FILE_MODIFY": "MODIFY",
    "SCHEMA_UPDATE": "MODIFY",
    "FILE_DELETE": "DELETE",
    "FILE_RENAME": "RENAME",
}
_NEW_FILE: Final = 0o644


def agent_title(plan: Plan) -> str:
    """Describe the plan in one line, by its text alone. The files that SQL and pipelines would change are not known."""
    title = f"plan {mask_for_review(plan.plan_id)}: {counted(len(plan.action_plan), 'action')}"
    if any(isinstance(action, SqlAction | PipelineAction) for action in plan.action_plan):
        return title
    files = len({plain_spelling(action.target) for action in plan.action_plan if action.target is not None})
    return f"{title} on {counted(files, 'file')}"


def agent_risk(plan: Plan, config: SystemConfig) -> RiskLevel:
    """Return the highest risk that the text of the plan and the configuration show. Files may raise it further."""
    findings = _findings(plan)
    return _risk(plan, _needed(plan, config, findings), findings)


def agent_document(plan: Plan, config: SystemConfig) -> AgentPlanPreview:
    """Build the preview for the agent: its own operations and its own content, and nothing of any file."""
    findings = _findings(plan)
    needs = _needed(plan, config, findings)
    return AgentPlanPreview.from_tree(
        {
            "plan_id": plan.plan_id,
            "plan_digest": plan.digest(),
            "status": "WITHHELD",
            "risk": _risk(plan, needs, findings),
            "files": [file.tree() for file in _files(plan)],
            "sql": [_sql(action).tree() for action in plan.action_plan if isinstance(action, SqlAction)],
            "pipelines": [
                _pipeline(action, config).tree() for action in plan.action_plan if isinstance(action, PipelineAction)
            ],
            "needs": needs.tree(),
            "findings": [found.tree() for found in findings[:MAX_FINDINGS]],
            "rules": [_sentence(rule) for rule in plan.validation_rules],
            "withheld": WITHHELD,
        }
    )


def text_for_person(plan: Plan, config: SystemConfig) -> AgentPlanPreview:
    """Build the same document for a person who reads a plan whose preview is not computed."""
    return agent_document(plan, config).model_copy(update={"withheld": NOT_COMPUTED})


# --- inside ----------------------------------------------------------------------------------------------------------


def _files(plan: Plan) -> Iterator[AgentPreviewedFile]:
    """Yield one entry for each action on a file. Only a file whose whole content the agent sent has lines."""
    remaining = MAX_SHOWN
    for action in plan.action_plan:
        if action.action_type not in _OPERATIONS or action.target is None:
            continue
        target = plain_spelling(action.target)
        text: str | None = None
        added = left_out = content = None
        if isinstance(action, FileCreate):
            content = content_of(action.operation.tree())
            diff = diff_whole(target, None, content)
            text, added, left_out = show_diff(diff.text).text, diff.added, diff.left_out
            if len(text) > remaining:
                text, left_out = "", left_out + text.count("\n")
            remaining -= len(text)
        yield AgentPreviewedFile(
            action_id=action.action_id,
            path=target,
            new_path=plain_spelling(action.operation.new_path) if isinstance(action, FileRename) else None,
            operation=_OPERATIONS[action.action_type],
            after=digest_bytes(content) if content is not None else None,
            size_after=len(content) if content is not None else None,
            lines_added=added,
            diff=text,
            diff_left_out=left_out,
        )


def _sql(action: SqlAction) -> AgentPreviewedSql:
    """Return the statements and the values as the agent sent them, without the content of a query file."""
    operation = action.operation
    shown = show_sql(operation.query, MAX_SQL_SHOWN).text if operation.query is not None else None
    return AgentPreviewedSql(
        action_id=action.action_id,
        connection=operation.connection,
        saved_to=operation.save_results_to,
        query_file=operation.query_file,
        texts=(shown,) if shown is not None else None,
        parameters=show_parameters(operation.parameters).parameters,
    )


def _pipeline(action: PipelineAction, config: SystemConfig) -> AgentPreviewedPipeline:
    pipeline = config.pipelines.get(action.operation.pipeline)  # None only if the config changed since the proposal
    return AgentPreviewedPipeline(
        action_id=action.action_id,
        pipeline=action.operation.pipeline,
        kind=None if pipeline is None else pipeline.type,
        reversible=action.reversible,
        parameters=show_parameters(action.operation.parameters).parameters,
    )


def _findings(plan: Plan) -> tuple[PreviewedFinding, ...]:
    """Return the findings in files whose whole content the agent sent. Findings in edits depend on other lines."""
    found = []
    for action in plan.action_plan:
        if isinstance(action, FileCreate):
            content, target = content_of(action.operation.tree()), plain_spelling(action.target)
            mode = int(action.operation.mode or "0", 8) or _NEW_FILE
            found += [_finding(target, one) for one in _findings_of(target, content, mode)]
    return tuple(found)


def _findings_of(path: str, content: bytes, mode: int) -> list[ContentFinding]:
    checked = [one for one in find_in_final(path, content, mode, PLAIN_CHECKS) if not _is_unchecked(one)]
    if diff_whole(path, None, content, full=False).preview.startswith(BINARY):
        checked.append(ContentFinding("command", "", "this is a binary file, so its content is not shown here"))
    return [*checked, *find_in_added(path, Edited(content, None, ""))]


def _is_unchecked(found: ContentFinding) -> bool:
    """Whether this file was not checked. YAML is parsed only in a sandboxed process, for the preview of people."""
    return found.rule == "syntax" and found.what.endswith("cannot be checked in this process")


def _finding(path: str, found: ContentFinding) -> PreviewedFinding:
    return PreviewedFinding.from_tree({"path": path, "rule": found.rule, "where": found.where, "what": found.what})


def _needed(plan: Plan, config: SystemConfig, findings: Sequence[PreviewedFinding]) -> AgentNeededApprovals:
    """Return the approvals that a person must give by name, limited to names in the plan.

    The files that a pipeline reads are named in the configuration, and left out.
    """
    named = {plain_spelling(path) for path in _name_items(plan)}
    needed = needed_approvals(plan, config)
    on_server = irreversible_by_text(plan, config)
    return AgentNeededApprovals(
        protected=tuple(path for path in needed.protected if path in named),
        executable=tuple(sorted({one.path for one in findings if one.rule == "executable"})),
        content=tuple(sorted({one.path for one in findings if one.rule != "executable"})),
        irreversible=None if on_server is None else tuple(dict.fromkeys((*needed.irreversible, *on_server))),
    )


def _name_items(plan: Plan) -> Iterator[str]:
    """Yield every path in the plan."""
    for action in plan.action_plan:
        also = (getattr(action.operation, name, None) for name in ("new_path", "query_file", "save_results_to"))
        yield from (path for path in (action.target, *also) if path is not None)
    for rule in plan.validation_rules:
        if not isinstance(rule, SqlExpect):
            yield rule.path
        if isinstance(rule, MatchesJsonSchema) and rule.schema_file is not None:
            yield rule.schema_file


def _risk(plan: Plan, needs: AgentNeededApprovals, findings: Sequence[PreviewedFinding]) -> RiskLevel:
    named: list[RiskLevel] = [action.risk_level for action in plan.action_plan]
    named += ["MEDIUM" if found.rule == "syntax" else "HIGH" for found in findings]
    if needs.protected or needs.irreversible or any(map(_is_grave, plan.action_plan)):
        named.append("HIGH")
    if any(isinstance(action, SqlAction | PipelineAction) for action in plan.action_plan):
        named.append("MEDIUM")
    if len({action.target for action in plan.action_plan}) > MANY_FILES:
        named.append("MEDIUM")
    return max(named, key=RISKS.index)


def _is_grave(action: Action) -> bool:
    return isinstance(action, FileDelete) or replaces_document(action) or destroys_by_its_text(action)


def _sentence(rule: ValidationRule) -> str:
    if isinstance(rule, SqlExpect):
        return f"{rule.type} on {rule.connection}"
    return f"{rule.type} {plain_spelling(rule.path)}"

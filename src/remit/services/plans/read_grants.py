"""What an agent with `plan.read` is shown of the stored preview of its own proposal (PV-04). Pure.

The rule is all or nothing. An agent is shown the preview as people see it if its token names every file and every
connection that the plan touches, reads or checks, none of them is protected, and nothing in them looks like a
credential. In every other case it gets the document that is made of the plan's text (`agent_preview`), whatever the
files and rows hold.

A preview of some actions only would not be safe. One computation makes the preview of a whole plan. When it ends, and
whether it succeeds, depends on every file of the plan. An agent that sees a part of the document learns both. Actions
of one plan also work on each other's results: a renamed secret is an edited document one action later.
"""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Final, NamedTuple

from remit.authority.capability_token import Token
from remit.contracts.browser.token_rules import READ
from remit.contracts.config.config import DuckdbConnection, SystemConfig
from remit.contracts.plans.agent_views import AgentReadPreview
from remit.contracts.plans.plan import (
    Action,
    FileCreate,
    FileDelete,
    FileModify,
    FileRename,
    Plan,
    SchemaUpdate,
    SqlAction,
)
from remit.contracts.plans.preview import PlanPreviewDocument
from remit.contracts.plans.validation_rules import MatchesJsonSchema, SqlExpect, ValidationRule
from remit.core.ids import render_time
from remit.execution.protected_paths import is_forbidden, is_named_by, protecting_group
from remit.fs.paths import plain_spelling
from remit.plans.policy.sql import sql_files
from remit.plans.proposals.turns import Turn

READ_WITHHELD: Final = (
    "An agent sees this preview as people see it, because its token names every file and connection of the plan. Only"
    " people see the digests of the inputs and of the preview. A person decides."
)
MAY_BE_READ: Final = '"free_of_credentials":true'
"""What the canonical text of a document holds if an agent may be shown it. So no other document is parsed for an agent.
`read_document` decides. In a string of the document the quotation marks would be escaped."""


class ReadGrant(NamedTuple):
    """The files and the connections that a token lets its agent read."""

    paths: tuple[str, ...] = ()
    connections: tuple[str, ...] = ()

    @classmethod
    def of(cls, token: Token) -> "ReadGrant":
        """Return the grant of a token. Constraints give nothing without the capability."""
        if READ not in token.caps:
            return cls()
        return cls(token.constraints.paths or (), token.constraints.connections or ())


class Subjects(NamedTuple):
    """The files and connections that a plan touches, reads or checks."""

    paths: tuple[str, ...]
    connections: tuple[str, ...]


def is_plan_readable(plan: Plan, config: SystemConfig, grant: ReadGrant) -> bool:
    """Whether the grant covers the whole plan, by the text of the plan and the configuration alone."""
    subjects = subjects_of(plan, config)
    if subjects is None:
        return False
    return all(is_path_readable(path, config, grant) for path in subjects.paths) and all(
        _is_connection_readable(name, config, grant) for name in subjects.connections
    )


def is_path_readable(path: str, config: SystemConfig, grant: ReadGrant) -> bool:
    """Whether the grant names this path, and the path is not protected. The content is not considered."""
    return is_named_by(path, grant.paths) and not _is_protected(path, config)


def read_document(
    document: PlanPreviewDocument, plan: Plan, config: SystemConfig, grant: ReadGrant
) -> AgentReadPreview | None:
    """Return the stored document for the agent, or None if it may not see it.

    The document must be of this plan, computed under this configuration: a connection of the same name could be another
    database since. Digests of inputs, also as part of another digest, are left out.
    """
    if document.status == "WITHHELD":
        return None
    is_current = (document.plan_digest, document.config_digest) == (plan.digest(), config.digest())
    if not is_current or not document.free_of_credentials or not is_plan_readable(plan, config, grant):
        return None
    databases = set(_databases(plan, config))
    shown = tuple(file for file in document.files if file.path not in databases)
    named = {path for file in shown for path in (file.path, file.new_path) if path is not None}
    if not all(is_path_readable(path, config, grant) for path in named):
        return None
    return AgentReadPreview(
        plan_id=document.plan_id,
        plan_digest=document.plan_digest,
        status=document.status,
        risk=document.risk,
        risk_reasons=document.risk_reasons,
        files=shown,
        sql=tuple(one.model_copy(update={"server": None}) for one in document.sql),
        needs=document.needs,
        findings=document.findings,
        remarks=document.remarks,
        problems=document.problems,
        doomed=document.doomed,
        would_end=document.would_end,
        consequence=document.consequence,
        rules=document.rules,
        folders=document.folders,
        backup_bytes=document.backup_bytes,
        withheld=READ_WITHHELD,
    )


def read_note(turn: Turn) -> str:
    """Say from which whole second the agent can read the preview of its proposal."""
    at = render_time(turn.ends_at + timedelta(seconds=1))[:19]
    return (
        f"Your token names every file and connection of the plan, so you can read its preview from {at}Z, unless"
        " one of the files looks like it holds a credential, or the preview takes too long to compute."
    )


def subjects_of(plan: Plan, config: SystemConfig) -> Subjects | None:
    """Return every file and connection of a plan, or None if the plan's text does not show all of them.

    A pipeline reads what its code or its folders say, so a plan with one is never shown.
    """
    paths: list[str] = []
    connections: list[str] = []
    for action in plan.action_plan:
        if isinstance(action, SqlAction):
            files = sql_files(action, config)
            connections.append(action.operation.connection)
            paths += [path for path in (files.results, files.query_file) if path is not None]
        elif isinstance(action, FileCreate | FileModify | FileDelete | FileRename | SchemaUpdate):
            paths += _paths_of_edit(action)
        else:
            return None
    for rule in plan.validation_rules:
        if isinstance(rule, SqlExpect):
            connections.append(rule.connection)
        else:
            paths += _paths_of_rule(rule)
    return Subjects(*(tuple(dict.fromkeys(each)) for each in (map(plain_spelling, paths), connections)))


# --- inside ----------------------------------------------------------------------------------------------------------


def _paths_of_edit(action: Action) -> Iterator[str]:
    yield action.target or ""
    if isinstance(action, FileRename):
        yield action.operation.new_path


def _paths_of_rule(rule: ValidationRule) -> Iterator[str]:
    if not isinstance(rule, SqlExpect):
        yield rule.path
    if isinstance(rule, MatchesJsonSchema) and rule.schema_file is not None:
        yield rule.schema_file


def _databases(plan: Plan, config: SystemConfig) -> Iterable[str]:
    """Yield the database files that SQL of the plan may change. Their bytes are not lines of a text."""
    found = (sql_files(each, config).database for each in plan.action_plan if isinstance(each, SqlAction))
    return (path for path in found if path is not None)


def _is_connection_readable(name: str, config: SystemConfig, grant: ReadGrant) -> bool:
    connection = config.connections.get(name)
    if name not in grant.connections or connection is None:
        return False
    path = connection.path if isinstance(connection, DuckdbConnection) else None
    return path is None or not _is_protected(path, config)


def _is_protected(path: str, config: SystemConfig) -> bool:
    plain = plain_spelling(path)
    return protecting_group(plain, config) is not None or bool(is_forbidden(plain, config))

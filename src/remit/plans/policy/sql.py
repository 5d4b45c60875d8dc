"""The files of actions that run SQL (database, results, query file), and the rules for such actions. Pure.

An action changes one file: the results file if it has one, else the database. This module decides from the plan and the
configuration alone. The effect of the statements is known later, when they run on a copy.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from remit.contracts.config.config import DuckdbConnection, PostgresqlConnection, SystemConfig
from remit.contracts.plans.plan import Action, PipelineAction, Plan, SqlAction
from remit.contracts.plans.validation_rules import SqlExpect
from remit.core.errors import Reason
from remit.effects.plans.database_files import LOG
from remit.execution.decision import Denial
from remit.fs.paths import plain_spelling
from remit.plans.policy.dependencies import paths_of_action
from remit.plans.policy.pipelines import pipeline_files, touched_files
from remit.plans.policy.remote_sql import FORMATS as SERVER_FORMATS
from remit.plans.policy.remote_sql import find_remote_denials, order_mark, server_of

MAX_SQL_ACTIONS: Final = 100
"""The limit for one plan. Each action has a file that stays open until the plan has ended."""
MAX_SQL_RULES: Final = 100
"""The limit for one plan. Each rule runs in its own process."""
FORMATS: Final = ("parquet", "csv", "json")
"""The formats of results, by the suffix of their file."""

_RESULTS: Final = "a results file"
_TWO_PLANS: Final = "Split it into two plans."


class SqlFiles(NamedTuple):
    """The files that one action names, each in its normal spelling."""

    database: str | None
    """None for a database in memory or an unknown connection."""
    results: str | None
    query_file: str | None
    closed: bool
    """Whether the connection is read-only."""

    @property
    def reads_only(self) -> bool:
        """Whether the database file stays as it is: it is read-only, or the action may write only its results."""
        return self.closed or self.results is not None

    @property
    def changed(self) -> str:
        """The one file that the action may change. Empty for an action that is refused."""
        return self.results or self.database or ""

    @property
    def named(self) -> tuple[str, ...]:
        paths = (self.results, self.database, self.query_file)
        return tuple(path for path in paths if path is not None)


def sql_files(action: SqlAction, config: SystemConfig) -> SqlFiles:
    operation, connection = action.operation, config.connections.get(action.operation.connection)
    return SqlFiles(
        database=_plain(_database(action, config)),
        results=_plain(operation.save_results_to),
        query_file=_plain(operation.query_file),
        closed=connection is not None and connection.read_only,
    )


def touched_by(config: SystemConfig) -> Callable[[Action], Sequence[str]]:
    """Return the function that tells which files order an action. An action that reads a database depends on it too."""

    def touched(action: Action) -> Sequence[str]:
        if isinstance(action, PipelineAction):
            return [*touched_files(action, config), *order_mark(action, config)]
        if not isinstance(action, SqlAction):
            return [*paths_of_action(action), *order_mark(action, config)]
        files = sql_files(action, config)
        named = [path for path in (files.results, files.database) if path is not None]
        return [*named, *order_mark(action, config)]

    return touched


def changed_paths(action: Action, config: SystemConfig) -> Sequence[str]:
    """Return the files that an action may change, each in its normal spelling."""
    if isinstance(action, PipelineAction):
        return [plain_spelling(path) for path in pipeline_files(action, config).writes]
    if not isinstance(action, SqlAction):
        return paths_of_action(action)
    changed = sql_files(action, config).changed
    return [changed] if changed else []


def named_paths(action: Action, config: SystemConfig) -> Sequence[str]:
    """Return the files that an action may change and those that it reads, since its effect may reveal their content."""
    if isinstance(action, PipelineAction):
        files = pipeline_files(action, config)
        return [plain_spelling(path) for path in (*files.writes, *files.reads)]
    return sql_files(action, config).named if isinstance(action, SqlAction) else paths_of_action(action)


def written_paths(action: SqlAction | PipelineAction, config: SystemConfig) -> Sequence[str]:
    """Return the files that an action may change, as the plan or the configuration spells them."""
    if isinstance(action, PipelineAction):
        return pipeline_files(action, config).writes
    changed = action.operation.save_results_to or _database(action, config)
    return [changed] if changed is not None else []


def read_paths(action: SqlAction | PipelineAction, config: SystemConfig) -> Sequence[str]:
    """Return the files that an action only reads, as the plan or the configuration spells them."""
    if isinstance(action, PipelineAction):
        return pipeline_files(action, config).reads
    database = None if action.operation.save_results_to is None else _database(action, config)
    return [path for path in (database, action.operation.query_file) if path is not None]


def _database(action: SqlAction, config: SystemConfig) -> str | None:
    connection = config.connections.get(action.operation.connection)
    return connection.path if isinstance(connection, DuckdbConnection) else None


def format_of(path: str) -> str | None:
    """Return the format of a results file by its suffix, and None for a suffix without a known format."""
    _, dot, suffix = path.rpartition("/")[2].lower().rpartition(".")
    return suffix if dot and suffix in FORMATS else None


def find_sql_denials(plan: Plan, config: SystemConfig) -> Iterator[Denial]:
    """Yield a denial for each broken rule about SQL actions, except the rules about paths in general."""
    yield from find_remote_denials(plan, config)
    actions = [action for action in plan.action_plan if isinstance(action, SqlAction)]
    if not actions:
        return
    if len(actions) > MAX_SQL_ACTIONS:
        yield Denial(
            Reason.LIMIT_EXCEEDED,
            f"{len(actions):,} actions run SQL, and {MAX_SQL_ACTIONS} are allowed",
            where="action_plan",
            next_step="Combine statements, or split it into several plans.",
        )
    for action in actions:
        yield from _check_connection(action, config)
        yield from _check_results(action, config)
    yield from _check_conflicts(plan, actions, config)
    yield from _saved_twice(actions, config)
    yield from _changed_texts(plan, actions, config)


def find_rule_denials(plan: Plan, config: SystemConfig) -> Iterator[Denial]:
    """Yield a denial for each faulty `sql_expect` rule, except for its path. The engine checks its query."""
    rules = [(number, rule) for number, rule in enumerate(plan.validation_rules) if isinstance(rule, SqlExpect)]
    if len(rules) > MAX_SQL_RULES:
        yield Denial(
            Reason.LIMIT_EXCEEDED,
            f"{len(rules):,} rules run SQL, and {MAX_SQL_RULES} are allowed",
            where="validation_rules",
            next_step="Combine queries, or split it into several plans.",
        )
    for number, rule in rules:
        where = f"validation_rules, {number}, connection"
        yield from _check_name(rule.connection, config, where)
        connection = config.connections.get(rule.connection)
        if isinstance(connection, PostgresqlConnection):
            yield Denial(
                Reason.CAPABILITY_UNSUPPORTED,
                "a rule cannot query a PostgreSQL database",
                where=where,
                next_step='Use an action instead, with `"expect_results": true` and a query that returns a row only if'
                " the data is right, such as SELECT 1 WHERE NOT EXISTS (SELECT ...).",
            )
        if isinstance(connection, DuckdbConnection) and connection.path is None:
            yield Denial(
                Reason.MALFORMED,
                "this connection is in memory, so a rule has nothing to read",
                where=where,
                next_step="Name a connection that has a file.",
            )


def rule_database(rule: SqlExpect, config: SystemConfig) -> str | None:
    """Return the file that the query of the rule reads, as the configuration spells it. None for a refused rule."""
    connection = config.connections.get(rule.connection)
    return connection.path if isinstance(connection, DuckdbConnection) else None


def _check_connection(action: SqlAction, config: SystemConfig) -> Iterator[Denial]:
    name = action.operation.connection
    yield from _check_name(name, config, _location_of(action, "connection"))
    connection = config.connections.get(name)
    if not isinstance(connection, DuckdbConnection):
        return
    if action.target is not None and plain_spelling(action.target) != _plain(connection.path):
        what = f"is the file {connection.path}" if connection.path else "is in memory and has no file"
        yield Denial(
            Reason.MALFORMED,
            f"the target is not the file of the connection: {name!r} {what}",
            where=_location_of(action, "target"),
            next_step="Leave the target out, or name the connection that it belongs to.",
        )


def _check_name(name: str, config: SystemConfig, where: str) -> Iterator[Denial]:
    connection = config.connections.get(name)
    if connection is None:
        known = ", ".join(sorted(config.connections)[:20])
        yield Denial(
            Reason.CAPABILITY_UNSUPPORTED,
            f"remit.yaml has no connection called {name!r}",
            where=where,
            next_step=f"Name one of these: {known}." if known else "Add it to `connections` in remit.yaml.",
        )


def _check_results(action: SqlAction, config: SystemConfig) -> Iterator[Denial]:
    saved_to = action.operation.save_results_to
    connection = config.connections.get(action.operation.connection)
    if saved_to is None and isinstance(connection, DuckdbConnection) and connection.path is None:
        yield Denial(
            Reason.MALFORMED,
            "an in-memory connection needs `save_results_to`, or the result is lost",
            where=_location_of(action, "save_results_to"),
            next_step="Name a file for the rows of the last SELECT, or another connection.",
        )
    if saved_to is not None and format_of(saved_to) is None:
        yield Denial(
            Reason.MALFORMED,
            "the suffix of this file names no format for rows",
            where=_location_of(action, "save_results_to"),
            next_step="Use .parquet, .csv or .json.",
        )
    elif saved_to is not None and server_of(action, config) and format_of(saved_to) not in SERVER_FORMATS:
        yield Denial(
            Reason.CAPABILITY_UNSUPPORTED,
            "rows of a PostgreSQL database cannot be saved in this format",
            where=_location_of(action, "save_results_to"),
            next_step="Use .csv or .json.",
        )


def _check_conflicts(plan: Plan, actions: Sequence[SqlAction], config: SystemConfig) -> Iterator[Denial]:
    """Check that no other action touches a database of the plan: Remit copies it before the first action runs."""
    reserved: dict[str, str] = {}
    for action in actions:
        files = sql_files(action, config)
        if files.database is not None:
            reserved[files.database] = reserved[files.database + LOG] = "a database"
    for action in actions:
        if (results := sql_files(action, config).results) is None:
            continue
        if reserved.setdefault(results, _RESULTS) != _RESULTS:
            yield Denial(
                Reason.PATH_REFUSED,
                f"rows cannot be saved to {results}: it is a database of this plan or the log of one",
                where=_location_of(action, "save_results_to"),
                next_step="Name another file.",
            )
    for other in plan.action_plan:
        if isinstance(other, SqlAction | PipelineAction):  # a pipeline works on what the action before it left
            continue
        for path in paths_of_action(other):
            if path in reserved:
                yield Denial(
                    Reason.PATH_REFUSED,
                    f"an action that runs SQL uses {path} as {reserved[path]}, so no other action may name it",
                    where=f"action {other.action_id}, {path!r}",
                    next_step=_TWO_PLANS,
                )


def _saved_twice(actions: Sequence[SqlAction], config: SystemConfig) -> Iterator[Denial]:
    times = Counter(results for action in actions if (results := sql_files(action, config).results) is not None)
    for action in actions:
        results = sql_files(action, config).results
        if results is not None and times[results] > 1:
            times[results] = 0  # reported once
            yield Denial(
                Reason.PATH_REFUSED,
                f"more than one action saves its rows to {results}",
                where=_location_of(action, "save_results_to"),
                next_step="Give each action its own file.",
            )


def _changed_texts(plan: Plan, actions: Sequence[SqlAction], config: SystemConfig) -> Iterator[Denial]:
    """Check that the plan changes no query file that it runs. The approval binds the current text, and that runs."""
    changed = {path for action in plan.action_plan for path in changed_paths(action, config)}
    for action in actions:
        query_file = sql_files(action, config).query_file
        if query_file in changed:
            yield Denial(
                Reason.PATH_REFUSED,
                f"the plan both changes {query_file} and runs it",
                where=_location_of(action, "query_file"),
                next_step=_TWO_PLANS,
            )


def _plain(path: str | None) -> str | None:
    return None if path is None else plain_spelling(path)


def _location_of(action: SqlAction, field: str) -> str:
    return f"action {action.action_id}, {field}"

"""Slow checks of a catalogue, made when a person checks or promotes it. The fast checks are repeated for every goal.

The SQL of simulations: whether the plan operation would accept it. No database is opened. DuckDB parses texts only in a
sandbox, and goals do not start one for this check. The access policies: a policy that names an action which no
simulation has makes all policies invalid. This happens when a simulation is removed from its file.

This module is above the agent core in the import order, because the core cannot reach a sandbox.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from remit.contracts.config.config import PostgresqlConnection, SystemConfig
from remit.contracts.goals.simulation import Simulation, SqlBinding
from remit.contracts.plans.plan import Plan, SqlAction
from remit.contracts.plans.validation_rules import SqlExpect
from remit.core.errors import RefusedError, RemitError
from remit.goals.access.cedar import UnknownActionError
from remit.goals.access.policy import find_policy_problems
from remit.goals.access.policy_files import read_policy_files
from remit.goals.binding.binding import PlanAction
from remit.goals.catalogue.catalogue import check_catalogue
from remit.goals.catalogue.files import CatalogueFinding, Definition, read_files
from remit.goals.catalogue.samples import sample_actions
from remit.plans.engines.sql_lint import TextProblem, WrittenText, check_duckdb_texts, check_postgres_texts
from remit.plans.policy.sql import sql_files
from remit.sandbox.manager import Fleet

MAX_LISTED: Final = 20


class _Query(NamedTuple):
    definition: Definition
    field: str
    connection: str
    text: WrittenText


def check_with_queries(
    root: Path, config: SystemConfig, fleet: Callable[[], Fleet]
) -> tuple[tuple[Definition, ...], tuple[CatalogueFinding, ...]]:
    """Run `check_catalogue` and these checks. A sandbox that is needed and cannot start is a finding too."""
    definitions, findings = check_catalogue(root, config)
    try:
        return definitions, (*findings, *check_queries(definitions, config, fleet))
    except RemitError as problem:
        what = f"its queries could not be checked: {problem.what}"
        advice = problem.next_step or "See: remit doctor"
        return definitions, (*findings, CatalogueFinding("goals.catalogue", "", "", what, advice))


def check_queries(
    definitions: Sequence[Definition], config: SystemConfig, fleet: Callable[[], Fleet]
) -> tuple[CatalogueFinding, ...]:
    """Return the queries that the plan operation would refuse. Starts a sandbox for DuckDB; raises if it cannot."""
    queries = [query for each in definitions for query in _queries(each, config)]
    servers = {name for name, each in config.connections.items() if isinstance(each, PostgresqlConnection)}
    remote = [query for query in queries if query.connection in servers]
    local = [query for query in queries if query.connection not in servers]
    found = _sql_findings(remote, check_postgres_texts([query.text for query in remote]))
    try:
        found += _sql_findings(local, check_duckdb_texts([query.text for query in local], fleet))
    except RefusedError as problem:  # DuckDB is not installed
        found += [_finding(query, problem.what, problem.next_step) for query in local]
    return tuple(found)


def check_queries_of(
    simulation: Simulation, config: SystemConfig, fleet: Callable[[], Fleet]
) -> tuple[CatalogueFinding, ...]:
    """Check the queries of one simulation, from any file."""
    return check_queries([Definition("", simulation)], config, fleet)


def _queries(definition: Definition, config: SystemConfig) -> Iterator[_Query]:
    """Return the queries. The other checks report a simulation that has no valid plan, or an unknown connection."""
    try:
        action = next(sample_actions(definition.simulation), None)
        plan = Plan.from_tree(action.plan("x")) if isinstance(action, PlanAction) else None
    except RemitError:
        return
    if plan is None:
        return
    is_one_query = isinstance(definition.simulation.binding, SqlBinding)
    for number, each in enumerate(plan.action_plan):
        if not isinstance(each, SqlAction) or each.operation.query is None:
            continue
        field = "binding.query" if is_one_query else f"binding.action_plan[{number}].operation.query"
        operation, reads_only = each.operation, sql_files(each, config).reads_only
        text = WrittenText(each.operation.query, operation.parameters, reads_only)
        if operation.connection in config.connections:
            yield _Query(definition, field, operation.connection, text)
    for number, rule in enumerate(plan.validation_rules):
        if isinstance(rule, SqlExpect) and rule.connection in config.connections:
            text = WrittenText(rule.query, rule.parameters, reads_only=True, one_select=True)
            yield _Query(definition, f"binding.validation_rules[{number}].query", rule.connection, text)


def _sql_findings(queries: Sequence[_Query], problems: Sequence[TextProblem]) -> list[CatalogueFinding]:
    return [_finding(queries[problem.number], problem.what, problem.next_step) for problem in problems]


def _finding(query: _Query, what: str, next_step: str) -> CatalogueFinding:
    definition = query.definition
    return CatalogueFinding(
        definition.file, definition.simulation.id, query.field, what, next_step or "Correct the query."
    )


# --- the access policies ---------------------------------------------------------------------------------------------


def check_policies(root: Path, config: SystemConfig) -> tuple[CatalogueFinding, ...]:
    """Return all problems of the access policies of a workspace.

    Returns nothing while a file of the catalogue cannot be read, because its actions are unknown then.
    """
    read = read_files(root.resolve(), config.goals.catalogue)
    if read.findings or not config.policies.cedar_files:
        return ()
    definitions = read.definitions
    tenants = {name: tenant.users for name, tenant in config.tenants.items()}
    actions = {each.simulation.access_action for each in definitions}
    try:
        problems: Sequence[RemitError] = find_policy_problems(
            read_policy_files(root, config.policies.cedar_files), tenants, actions
        )
    except RemitError as problem:
        problems = (problem,)
    return tuple(_policy_finding(problem, definitions) for problem in problems)


def _policy_finding(problem: RemitError, definitions: Sequence[Definition]) -> CatalogueFinding:
    related = f" {_simulations(definitions)}" if isinstance(problem, UnknownActionError) else ""
    return CatalogueFinding(
        problem.where or "policies.cedar_files", "", "", problem.what, f"{problem.next_step}{related}"
    )


def _simulations(definitions: Sequence[Definition]) -> str:
    names = sorted(f"{each.simulation.id} ({each.simulation.access_action})" for each in definitions)
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return f"The known simulations: {', '.join(names[:MAX_LISTED]) or 'none'}{more}."

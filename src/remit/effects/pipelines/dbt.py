"""Runs a dbt project on a copy of a DuckDB file, with dbt's own runner and a profile that Remit writes. Its nodes are
the steps.

dbt is loaded only here, inside the sandbox, which takes some seconds for each run. It has no network, starts no
process, and reaches only the folder of copies. A hook, a Python model, an ATTACH or a COPY can do no more than that.
"""

import contextlib
import importlib
import json
import multiprocessing.pool
import os
import queue
import resource
import threading
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from remit.effects.context import EffectContext
from remit.effects.pipelines.errors import StepFailedError, raised

COMMANDS: Final = frozenset({"run", "build", "seed", "test"})
MAX_NODES: Final = 500
"""The limit of nodes that are reported during the run. An order has a limited number of steps, and the number of nodes
of a project is not known before.
"""

_PROFILE: Final = "remit"
_GOOD: Final = frozenset({"success", "pass", "warn", "no-op", "partial success", "reused"})
_SKIPPED: Final = frozenset({"skipped"})
_NOT_KEPT: Final = frozenset({"test", "unit", "ephemeral", "function"})
_TABLES: Final = frozenset({"table", "incremental", "seed", "snapshot"})
_LONGEST: Final = 200
_LEAST_MEMORY: Final = 64 << 20
_QUIET: Final = ("--no-use-colors", "--no-send-anonymous-usage-stats", "--no-version-check", "--no-partial-parse")


class Threads:
    """A context for `multiprocessing` with locks and queues of threads, which are enough for a single process.

    Locks and queues between processes need shared memory and pipes, which the sandbox refuses.
    """

    Lock = staticmethod(threading.Lock)
    RLock = staticmethod(threading.RLock)

    class SimpleQueue(queue.SimpleQueue[Any]):
        _reader = None

        def close(self) -> None:
            pass


def wait_for_updates(_sentinels: Any, notifier: Any, timeout: float | None = None) -> None:
    """Wait for a thread of the pool, in place of the function that waits for a pipe."""
    with contextlib.suppress(queue.Empty):
        notifier.get(timeout=timeout)


class FinishedNode(NamedTuple):
    """One finished node, from an event of dbt or from the results of the run."""

    name: str
    status: str
    message: str
    response: Mapping[str, Any]
    seconds: float
    made: str
    """How the node is materialised: as a table, as a view. Empty where nothing is stored, for example for a test."""
    relation: str


class Nodes:
    """Reports the nodes to the host from dbt's events: which node begins, and how it ends."""

    def __init__(self, work: EffectContext) -> None:
        self._work = work
        self._numbers: dict[str, int] = {}
        self._over: set[str] = set()
        self._total = 0
        self._turn = threading.Lock()
        self.failed: StepFailedError | None = None

    def handle_event(self, event: Any) -> None:
        """Handle an event of dbt. Events that are not about a node are only in the log."""
        kind, data = event.info.name, event.data
        if kind == "ConcurrencyLine":
            self._total = int(data.node_count)
        elif kind == "NodeStart":
            self.begin(str(data.node_info.unique_id))
        elif kind == "NodeFinished":
            result, node = data.run_result, data.node_info
            response, seconds = dict(result.adapter_response), float(result.execution_time)
            made = materialisation_of(node.materialized)
            relation = str(node.node_relation.relation_name)
            self.end(
                FinishedNode(str(node.unique_id), str(result.status), result.message, response, seconds, made, relation)
            )

    def begin(self, name: str) -> bool:
        """Report that a node begins. Return whether the node is reported, which the limit of nodes may prevent."""
        with self._turn:
            if name in self._numbers or len(self._numbers) == MAX_NODES:
                return name in self._numbers
            number = self._numbers[name] = len(self._numbers)
            message = {"number": number, "name": name[:_LONGEST], "total": self._total}
            self._work.step({**message, "phase": "begun"})
            return True

    def end(self, one: FinishedNode) -> None:
        """Report the end of a node, once for each node: the results of the run repeat the events."""
        is_good, is_skipped = one.status in _GOOD, one.status in _SKIPPED
        if not (is_good or is_skipped) and self.failed is None:
            self.failed = StepFailedError((one.message or one.status).strip(), where=one.name)
        if one.name in self._over or not self.begin(one.name):
            return
        self._over.add(one.name)
        message = {
            "number": self._numbers[one.name],
            "name": one.name[:_LONGEST],
            "rows": rows_of(one.response),
            "seconds": one.seconds,
        }
        if is_good:
            rows = count_rows(one) if message["rows"] is None else message["rows"]
            self._work.step({**message, "rows": rows, "phase": "done", "words": one.made or one.status})
        elif is_skipped:
            self._work.step({**message, "phase": "skipped", "words": one.status})
        else:
            error = StepFailedError((one.message or one.status).strip()).as_json()
            self._work.step({**message, "phase": "failed", "error": error})


def run_dbt(
    work: EffectContext, root: str, scratch: str, inputs: Mapping[str, Any], parameters: Mapping[str, Any]
) -> None:
    """Run the project. Raise the error of the first node that failed, or the reason why dbt could not begin."""
    nodes = Nodes(work)
    try:
        results, problem = _invoke(nodes, root, scratch, inputs, parameters)
        close_databases()
    except MemoryError:
        raise
    except BaseException as unforeseen:  # noqa: BLE001 - a project can make dbt raise anything
        raise raised(unforeseen, root) from None
    for one in results:
        name, message = str(one.node.unique_id), str(one.message or "")
        # Without materialisation and relation: the databases are closed, and an event reported these before.
        nodes.end(FinishedNode(name, str(one.status), message, one.adapter_response, float(one.execution_time), "", ""))
    if nodes.failed is not None:
        raise nodes.failed
    if problem is not None:
        raise StepFailedError(problem, next_step="See the log of the pipeline for details.")


def _invoke(
    nodes: Nodes, root: str, scratch: str, inputs: Mapping[str, Any], parameters: Mapping[str, Any]
) -> tuple[list[Any], str | None]:
    """Run dbt. Return the results of its nodes, and the reason if it did not succeed."""
    runner = load_dbt()(callbacks=[nodes.handle_event])
    project = os.path.join(root, inputs["project"])
    profiles = os.path.join(scratch, "profiles")
    os.makedirs(profiles, exist_ok=True)
    with open(os.path.join(profiles, "profiles.yml"), "w", encoding="utf-8") as file:
        json.dump(profile(os.path.join(root, inputs["database"]), os.environ["TMPDIR"]), file)  # JSON is YAML
    if inputs["command"] not in COMMANDS:
        raise StepFailedError(f"a pipeline cannot run the dbt command {inputs['command']}")
    places = {"project-dir": project, "profiles-dir": profiles, "target-path": scratch + "/target", "log-path": scratch}
    arguments = [inputs["command"], *(argument for name, path in places.items() for argument in (f"--{name}", path))]
    arguments += ["--profile", _PROFILE, "--target", _PROFILE, "--vars", json.dumps(dict(parameters)), *_QUIET]
    arguments += ["--log-level-file", "none"]
    if inputs["select"]:
        arguments += ["--select", *inputs["select"]]
    answer = runner.invoke(arguments)
    results = getattr(answer.result, "results", None)
    if answer.exception is not None:
        return list(results or ()), f"{type(answer.exception).__name__}: {answer.exception}"
    return list(results or ()), None if answer.success else "dbt did not succeed"


def load_dbt() -> Any:
    """Load dbt and return its runner. Replaces the parts of `multiprocessing` that dbt would use."""
    pool: Any = multiprocessing.pool
    pool.get_context = Threads
    pool.Pool._wait_for_updates = staticmethod(wait_for_updates)  # noqa: SLF001 - there is no public way to replace it
    # Imported by name, because dbt is an extra that may be missing, also for the type checker.
    context: Any = importlib.import_module("dbt.mp_context")
    context.get_mp_context = Threads
    events: Any = importlib.import_module("dbt.events.types")
    events.StatsLine.message = verdict
    return importlib.import_module("dbt.cli.main").dbtRunner


def close_databases() -> None:
    """Close all databases, so that all bytes are in the one file. dbt itself closes them only when its process ends."""
    connections: Any = importlib.import_module("dbt.adapters.duckdb.connections")
    connections.DuckDBConnectionManager.close_all_connections()


def profile(database: str, temporary: str) -> dict[str, Any]:
    """Return the profile: one database, one thread, and an engine that fetches nothing. The sandbox limits all else."""
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    memory = {} if most == resource.RLIM_INFINITY else {"memory_limit": f"{max(most // 4, _LEAST_MEMORY) // 1024}KiB"}
    options = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "allow_community_extensions": "false",
        "temp_directory": temporary,
        **memory,
    }
    output = {"type": "duckdb", "path": database, "threads": 1, "config_options": {"threads": "1", **options}}
    return {_PROFILE: {"target": _PROFILE, "outputs": {_PROFILE: output}}}


def verdict(event: Any) -> str:
    """Return the last line of a run. dbt writes `PASS=4`, which looks like a password and would be masked."""
    counts = {name: int(count) for name, count in dict(event.stats).items()}
    ends = (("pass", "passed"), ("warn", "with a warning"), ("error", "failed"), ("skip", "skipped"))
    summary = ", ".join(f"{counts.get(name, 0)} {label}" for name, label in ends)
    return f"Done: {summary}; {counts.get('total', 0)} in all"


def materialisation_of(materialized: Any) -> str:
    """Return how a node is stored; empty for a node that stores nothing, such as a test or an ephemeral model."""
    return str(materialized) if materialized and materialized not in _NOT_KEPT else ""


def count_rows(one: FinishedNode) -> int | None:
    """Count the rows of a table that exists now, because the adapter for DuckDB does not report them. None for a view,
    which would have to run its query again.
    """
    if one.made not in _TABLES or not one.relation:
        return None
    connections: Any = importlib.import_module("dbt.adapters.duckdb.connections")
    try:
        with connections.DuckDBConnectionManager.env().conn.cursor() as cursor:
            ((count,),) = cursor.execute(f"SELECT count(*) FROM {one.relation}").fetchall()  # noqa: S608 - as dbt does
        return int(count)
    except Exception:  # noqa: BLE001 - the count is information for people, and optional
        return None


def rows_of(response: Mapping[str, Any]) -> int | None:
    rows = response.get("rows_affected")
    return int(rows) if isinstance(rows, int | float) and rows >= 0 else None

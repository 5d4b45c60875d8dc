"""A dbt project, run on a copy of a DuckDB file: dbt's own runner, with a profile of ours. Its nodes are the steps.

dbt is loaded here, behind the walls, and nowhere else: it takes some seconds, each time. It has no network, starts no
process, and reaches nothing but the folder: a hook, a model in Python, an ATTACH or a COPY can do no more than that.
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
"""As many are told of while they run. An order has a number of steps, and of a project it is not known before."""

_PROFILE: Final = "remit"
_GOOD: Final = frozenset({"success", "pass", "warn", "no-op", "partial success", "reused"})
_SKIPPED: Final = frozenset({"skipped"})
_NOT_KEPT: Final = frozenset({"test", "unit", "ephemeral", "function"})
_TABLES: Final = frozenset({"table", "incremental", "seed", "snapshot"})
_LONGEST: Final = 200
_LEAST_MEMORY: Final = 64 << 20
_QUIET: Final = ("--no-use-colors", "--no-send-anonymous-usage-stats", "--no-version-check", "--no-partial-parse")


class Threads:
    """For `multiprocessing`, as a context: one process is all there is, so locks and queues of threads are enough.

    Those between processes stand on shared memory and pipes, which nothing here may have.
    """

    Lock = staticmethod(threading.Lock)
    RLock = staticmethod(threading.RLock)

    class SimpleQueue(queue.SimpleQueue[Any]):
        _reader = None

        def close(self) -> None:
            pass


def wait_for_updates(_sentinels: Any, notifier: Any, timeout: float | None = None) -> None:
    """For a pool of threads, instead of waiting for the end of a pipe."""
    with contextlib.suppress(queue.Empty):
        notifier.get(timeout=timeout)


class FinishedNode(NamedTuple):
    """One node that is over: as dbt says it in an event, or in the results of the run."""

    name: str
    status: str
    message: str
    response: Mapping[str, Any]
    seconds: float
    made: str
    """How it is kept: as a table, as a view. Empty where nothing is, as of a test."""
    relation: str


class Nodes:
    """What dbt says while it works: which node begins, which is over and how."""

    def __init__(self, work: EffectContext) -> None:
        self._work = work
        self._numbers: dict[str, int] = {}
        self._over: set[str] = set()
        self._total = 0
        self._turn = threading.Lock()
        self.failed: StepFailedError | None = None

    def handle_event(self, event: Any) -> None:
        """An event of dbt's. What is not about a node is in the log."""
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
        """Whether it can be told of."""
        with self._turn:
            if name in self._numbers or len(self._numbers) == MAX_NODES:
                return name in self._numbers
            number = self._numbers[name] = len(self._numbers)
            message = {"number": number, "name": name[:_LONGEST], "total": self._total}
            self._work.step({**message, "phase": "begun"})
            return True

    def end(self, one: FinishedNode) -> None:
        """Once for each: the results of the run hold again what was said before."""
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
    """Raises what the first node that failed has failed of, or why dbt could not even begin."""
    nodes = Nodes(work)
    try:
        results, problem = _invoke(nodes, root, scratch, inputs, parameters)
        close_databases()
    except MemoryError:
        raise
    except BaseException as unforeseen:  # noqa: BLE001 - what a project makes dbt raise is not for us to know
        raise raised(unforeseen, root) from None
    for one in results:
        name, message = str(one.node.unique_id), str(one.message or "")
        # What was made is not asked for: the databases are closed, and what was made was told before.
        nodes.end(FinishedNode(name, str(one.status), message, one.adapter_response, float(one.execution_time), "", ""))
    if nodes.failed is not None:
        raise nodes.failed
    if problem is not None:
        raise StepFailedError(problem, next_step="The log of the pipeline says more.")


def _invoke(
    nodes: Nodes, root: str, scratch: str, inputs: Mapping[str, Any], parameters: Mapping[str, Any]
) -> tuple[list[Any], str | None]:
    """The results of its nodes, and why it did not succeed, if it did not."""
    runner = load_dbt()(callbacks=[nodes.handle_event])
    project = os.path.join(root, inputs["project"])
    profiles = os.path.join(scratch, "profiles")
    os.makedirs(profiles, exist_ok=True)
    with open(os.path.join(profiles, "profiles.yml"), "w", encoding="utf-8") as file:
        json.dump(profile(os.path.join(root, inputs["database"]), os.environ["TMPDIR"]), file)  # JSON is YAML
    if inputs["command"] not in COMMANDS:
        raise StepFailedError(f"there is no command for dbt of the name {inputs['command']}")
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
    """Its runner. What it would make of `multiprocessing` is replaced before it looks."""
    pool: Any = multiprocessing.pool
    pool.get_context = Threads
    pool.Pool._wait_for_updates = staticmethod(wait_for_updates)  # noqa: SLF001 - there is no other place for it
    # By their names: an extra that need not be here, not even to check types.
    context: Any = importlib.import_module("dbt.mp_context")
    context.get_mp_context = Threads
    events: Any = importlib.import_module("dbt.events.types")
    events.StatsLine.message = verdict
    return importlib.import_module("dbt.cli.main").dbtRunner


def close_databases() -> None:
    """So that all is in the one file: dbt leaves it to the end of its process, which does not come by itself here."""
    connections: Any = importlib.import_module("dbt.adapters.duckdb.connections")
    connections.DuckDBConnectionManager.close_all_connections()


def profile(database: str, temporary: str) -> dict[str, Any]:
    """One database, one thread, and an engine that fetches nothing. What else it may open is for the kernel to say."""
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
    """The last line of a run. As dbt writes it, `PASS=4`, it looks like a password, and would be masked."""
    counts = {name: int(count) for name, count in dict(event.stats).items()}
    ends = (("pass", "passed"), ("warn", "with a warning"), ("error", "failed"), ("skip", "skipped"))
    summary = ", ".join(f"{counts.get(name, 0)} {label}" for name, label in ends)
    return f"Done: {summary}; {counts.get('total', 0)} in all"


def materialisation_of(materialized: Any) -> str:
    """A test is not kept, and neither is what lives within others."""
    return str(materialized) if materialized and materialized not in _NOT_KEPT else ""


def count_rows(one: FinishedNode) -> int | None:
    """Of a table that is there now: the adapter for DuckDB does not say. Of a view it would be a query of its own."""
    if one.made not in _TABLES or not one.relation:
        return None
    connections: Any = importlib.import_module("dbt.adapters.duckdb.connections")
    try:
        with connections.DuckDBConnectionManager.env().conn.cursor() as cursor:
            ((count,),) = cursor.execute(f"SELECT count(*) FROM {one.relation}").fetchall()  # noqa: S608 - as dbt does
        return int(count)
    except Exception:  # noqa: BLE001 - it is told for people to read, and need not be there
        return None


def rows_of(response: Mapping[str, Any]) -> int | None:
    rows = response.get("rows_affected")
    return int(rows) if isinstance(rows, int | float) and rows >= 0 else None

"""The self-check of an executor: tests the requirements of every capability in a real workspace and a real sandbox.

`check_capability` takes a declaration, and a function that prepares files for one task. It returns the problems, in
sentences. If the list is empty, the capability may be registered. Remit's own executors must pass the same check.
"""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any, Final

from remit.contracts.tasks.result import ExecutionResult
from remit.core.errors import RefusedError, RemitError
from remit.core.ids import system_clock
from remit.effects.registry import Capability
from remit.sandbox.host import InterruptedTaskError, SandboxHost
from remit.sandbox.manager import import_paths
from remit.sandbox.orders import Quotas
from remit.tasks.checkpoint import TaskCheckpoint
from remit.tasks.operation import Call, TaskOperation
from remit.workspace.create import initialise
from remit.workspace.workspace import Workspace

Arrange = Callable[[Path], Mapping[str, Any]]
"""Creates new files below the folder that it gets, and returns the inputs of a task that uses them."""

# Modules that an effect may not load, because with them it could use a key, the ledger or the store.
FORBIDDEN: Final = (
    "remit.authority",
    "remit.crypto",
    "remit.execution",
    "remit.identity",
    "remit.ledger",
    "remit.store",
    "remit.tasks",
    "remit.workspace",
    "cryptography",
    "pydantic",
    "sqlite3",
)


def check_capability(capability: Capability, arrange: Arrange, folder: Path) -> list[str]:
    """Test a capability in a real workspace and a real sandbox, and return the problems.

    Args:
        capability: The declaration.
        arrange: Creates new files below the folder that it gets, and returns the inputs of a task that uses them.
        folder: An empty folder that is not a workspace.

    Returns:
        The problems, in sentences. If there is none, the capability may be registered.
    """
    problems = [*_declaration(capability)]
    if problems:  # the other checks cannot run
        return problems
    with _bench(capability, arrange, folder) as bench:
        for check in _CHECKS:
            problems += check(bench)
    return problems


class _Bench:
    """A workspace with the capability, and tasks for it."""

    def __init__(self, workspace: Workspace, capability: Capability, arrange: Arrange, base: Path) -> None:
        self.workspace = workspace
        self.capability = capability
        self.base = base
        self._arrange = arrange
        self._numbers = count(1)

    def task(self, *, reversible: bool = True, **changed_inputs: Any) -> bytes:
        number = next(self._numbers)
        folder = self.base / f"task-{number}"
        folder.mkdir()
        manifest = {
            "task_id": f"self-check-{number}",
            "capability_id": self.capability.capability_id,
            "inputs": {**self._arrange(folder), **changed_inputs},
            "constraints": {"reversible": reversible},
        }
        return json.dumps(manifest).encode()

    def lease(self, manifest: bytes) -> bytes:
        return self.workspace.issue_lease(manifest, life=timedelta(minutes=5)).canonical()

    def run(self, manifest: bytes) -> ExecutionResult:
        return self.workspace.execute_task(manifest, self.lease(manifest))

    def begin(self, manifest: bytes) -> tuple[TaskCheckpoint, TaskOperation]:
        """Do all steps before the effect, and record nothing."""
        operation = self.workspace.tasks.operation()
        granted = operation.verify_authority(operation.parse((manifest, self.lease(manifest))), system_clock())
        return operation.load_checkpoint(operation.checkpoint(granted, operation.preview(granted)))[1], operation

    def sandbox(self, quotas: Quotas) -> SandboxHost:
        effects = (self.capability.effect,)
        lock = self.workspace.state.hosts / "self-check.lock"
        return SandboxHost(effects, quotas, lock=lock, import_paths=import_paths(effects))

    def files(self) -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in sorted(self.base.rglob("*")) if path.is_file()}


@contextmanager
def _bench(capability: Capability, arrange: Arrange, folder: Path) -> Iterator[_Bench]:
    base, project = folder / "base", folder / "project"
    base.mkdir()
    project.mkdir()
    environ = {"REMIT_STATE": str(folder / "state"), "HOME": str(folder)}
    initialise(project, environ, system_clock)[0].close()
    settings = {"version": 1, "base_directories": [str(base.resolve())]}
    (project / "remit.yaml").write_text(json.dumps(settings), encoding="utf-8")  # JSON is valid YAML
    with Workspace.open(project, environ=environ) as workspace:
        if workspace.registry.get(capability.capability_id) is None:
            workspace.registry.register(capability)
        yield _Bench(workspace, capability, arrange, base.resolve())


def _declaration(capability: Capability) -> Iterator[str]:
    module_name, _, name = capability.effect.partition(":")
    try:
        module = importlib.import_module(module_name)
        effect = getattr(module, name)
    except (ImportError, AttributeError, ValueError) as problem:
        yield f"{capability.effect} cannot be loaded: {problem}"
        return
    missing = [method for method in ("run", "settle") if not callable(getattr(effect, method, None))]
    if missing:
        yield f"{capability.effect} has no {' and no '.join(missing)}"
    public = [found for found in dir(effect) if not found.startswith("_") and found not in {"run", "settle"}]
    if public:
        yield f"{capability.effect} offers more than run and settle: {', '.join(public)}"
    unknown = [path for path in capability.paths if path not in capability.inputs.model_fields]
    if unknown:
        yield f"declares paths that are not inputs: {', '.join(unknown)}"
    yield from _heavy_imports(module_name)


def _heavy_imports(module_name: str) -> Iterator[str]:
    """Load the module in a new interpreter, because this one has already loaded the forbidden modules."""
    program = f"import sys, json, {module_name}; print(json.dumps(sorted(sys.modules)))"
    paths = json.dumps([os.path.abspath(path) for path in sys.path])
    command = [sys.executable, "-I", "-c", f"import sys, json; sys.path[:0] = json.loads({paths!r}); {program}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - this interpreter
    if done.returncode != 0:
        yield f"{module_name} cannot be loaded alone: {done.stderr.strip().splitlines()[-1]}"
        return
    loaded = json.loads(done.stdout)
    found = [name for name in FORBIDDEN if any(each == name or each.startswith(name + ".") for each in loaded)]
    if found:
        yield f"{module_name} loads modules that an effect may not use: {', '.join(found)}"


def _succeeds(bench: _Bench) -> Iterator[str]:
    manifest = bench.task()
    result = bench.run(manifest)
    if result.error is not None:
        yield f"a plain task fails: {result.error.message}"
        return
    try:
        bench.workspace.kernel.accept(result.canonical(), manifest)
    except RemitError as problem:
        yield f"the kernel does not accept the result: {problem}"


def _needs_a_lease(bench: _Bench) -> Iterator[str]:
    manifest, other = bench.task(), bench.task()
    before = bench.files()
    for what, lease in (("without a lease", b"{}"), ("under another task's lease", bench.lease(other))):
        result = bench.workspace.execute_task(manifest, lease)
        if result.error is None or result.error.error_code != "INVALID_LEASE":
            yield f"runs {what}"
        if bench.files() != before:
            yield f"changes files {what}"


def _closes_its_inputs(bench: _Bench) -> Iterator[str]:
    manifest = bench.task(no_such_input=1)
    before = bench.files()
    try:
        result = bench.run(manifest)
    except RefusedError:  # the inputs of a built-in capability are checked when they are parsed
        result = None
    if result is not None and result.error is None:
        yield "accepts an input that its contract does not have"
    if bench.files() != before:
        yield "changes files although its inputs are invalid"


def _happens_once(bench: _Bench) -> Iterator[str]:
    manifest = bench.task()
    first = bench.run(manifest)
    after = bench.files()
    again = bench.run(manifest)
    if again.canonical() != first.canonical():
        yield "returns another result when the same task is run again"
    if bench.files() != after:
        yield "changes files when the same task is run again"


def _respects_reversibility(bench: _Bench) -> Iterator[str]:
    manifest = bench.task(reversible=False)
    before = bench.files()
    result = bench.run(manifest)
    if bench.capability.must_be_reversible and (result.error is None or bench.files() != before):
        yield "runs although the task is not reversible"


def _recovers_when_interrupted(bench: _Bench) -> Iterator[str]:
    """Run the effect under a quota that is too small for any effect. Then undo it and finish it, with enough quota."""
    if bench.capability.restores is not None:  # this test would need a snapshot of another task
        return
    calls: tuple[Call, ...] = ("undo", "finish")
    for call in calls:
        checkpoint, operation = bench.begin(bench.task())
        before = bench.files()
        try:
            with bench.sandbox(Quotas(1 << 28, read_bytes=1, write_bytes=1, seconds=10)) as tight:
                tight.run(operation.order(checkpoint, "run"))
        except InterruptedTaskError as cut:
            notes = cut.notes
        except RemitError:  # it failed for another reason, which other checks report
            continue
        else:
            yield "is not stopped by a quota"
            continue
        try:
            with bench.sandbox(Quotas(1 << 28, read_bytes=1 << 30, write_bytes=1 << 30, seconds=10)) as ample:
                made = ample.run(operation.order(checkpoint, call, notes)).output
        except RemitError as problem:
            made = {}
            if call == "finish":  # it may be too late to undo, but it is never too late to finish
                yield f"cannot be finished after an interruption: {problem}"
        after = bench.files()
        if any(path.endswith(".part") for path in after) or (made is None and after != before):
            yield f"leaves changes behind after an interruption ({call})"


_CHECKS: Final = (
    _succeeds,
    _needs_a_lease,
    _closes_its_inputs,
    _happens_once,
    _respects_reversibility,
    _recovers_when_interrupted,
)

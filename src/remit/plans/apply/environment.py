"""Shared dependencies of plan runs and rollbacks: rules, sandboxes, cancellations, and the hooks of the caller."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from remit.contracts.config.config import PostgresqlConnection, SystemConfig
from remit.contracts.plans.status import StatusUpdate
from remit.core.errors import Reason, RefusedError
from remit.core.ids import Clock, render_time
from remit.effects.plans.steps import StepPlan
from remit.plans.engines import pipeline as pipeline_engine
from remit.plans.engines import postgres as postgres_engine
from remit.plans.engines.duckdb import BUILD, EFFECT, Engine
from remit.plans.engines.postgres import PostgresEngine
from remit.plans.engines.postgres_servers import LockBudget, PostgresServer, find_server
from remit.plans.model.callbacks import NO_HOOKS, PlanHooks
from remit.plans.preparation.prepared import Engines
from remit.plans.preparation.remote_sql import Servers
from remit.plans.runtime.runner import FULL_EFFECTS, PLAIN_EFFECTS, PlanRunner
from remit.sandbox.host import SandboxHost
from remit.sandbox.manager import Fleet
from remit.sandbox.orders import Build, Quotas

Phase = Literal["CHECKING", "CHECKPOINT", "RUNNING", "VERIFYING", "ROLLING_BACK", "REPORTING"]

CANCEL_POLL_SECONDS: Final = 0.25
"""Seconds between two reads of the ledger for a cancellation."""
_OPEN_FILES: Final = 512
_PARSERS: Final = ("ruamel", "jsonpath", "jsonschema_rs", "re2")
"""Packages that the edits of structured files import."""
_ENGINE_MEMORY_PERCENT: Final = 60
"""Per cent of a process's memory that an engine may use. An engine at its own limit reports an error. One that the
kernel kills cannot."""


@dataclass(frozen=True, slots=True)
class PlanRules:
    """The settings of the workspace that apply to plans."""

    root: Callable[[], str]
    config: Callable[[], SystemConfig]
    clock: Clock
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Environment variables. They hold the addresses of database servers."""
    _digests: dict[int, tuple[SystemConfig, str]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def config_digest(self) -> str:
        """Return the digest of the current configuration, computed once for each configuration that was read."""
        config = self.config()
        known = self._digests.get(id(config))
        if known is None:
            self._digests.clear()
            known = self._digests[id(config)] = (config, config.digest())
        return known[1]


class Cancellations:
    """Reads whether the ledger records a cancellation for an envelope id. A cancellation is permanent."""

    def __init__(self, read: Callable[[str], bool] = lambda _: False) -> None:
        self._read = read
        self._next: dict[str, float] = {}
        self._cancelled: set[str] = set()

    def is_known(self, envelope_id: str) -> bool:
        """Return whether a cancellation is known.

        This is fast: the ledger is read at most every `CANCEL_POLL_SECONDS`.
        """
        if time.monotonic() >= self._next.get(envelope_id, 0.0):
            return self.is_recorded(envelope_id)
        return envelope_id in self._cancelled

    def is_recorded(self, envelope_id: str) -> bool:
        """Return whether a cancellation is recorded now. Always reads the ledger, unless one is known already."""
        if envelope_id not in self._cancelled and self._read(envelope_id):
            self._cancelled.add(envelope_id)
        self._next[envelope_id] = time.monotonic() + CANCEL_POLL_SECONDS
        return envelope_id in self._cancelled


@dataclass(frozen=True)
class PlanEnvironment:
    """What a plan run needs beside its checkpoint. Requests share the rules and sandboxes; each has its own hooks."""

    rules: PlanRules
    fleet: Fleet
    cancellations: Cancellations
    work: Path
    """The folder where SQL runs on copies."""
    hooks: PlanHooks = NO_HOOKS

    def now(self) -> str:
        return render_time(self.rules.clock())

    def is_cancelled(self, envelope_id: str) -> bool:
        """Whether the caller, or a recorded cancellation, asks to stop this run. Fast enough to be called often."""
        return self.hooks.is_cancelled() or self.cancellations.is_known(envelope_id)

    def runner(
        self, envelope_id: str, *, needs_parsers: bool, plan_id: str = "", steps: StepPlan | None = None
    ) -> PlanRunner:
        """Return a runner for the steps of a plan. Edits by structure need one with the parsers.

        With `steps`, the I/O quota is large enough for all their files, whatever the configured limits are.
        """
        effects = FULL_EFFECTS if needs_parsers else PLAIN_EFFECTS
        quotas = self._quotas(steps)
        build = Build(exchanges=True, open_files=_OPEN_FILES, packages=_PARSERS if needs_parsers else ())

        def on_progress(done: int, total: int) -> None:
            self.hooks.on_progress(done, total)
            if plan_id:
                self.report_status(envelope_id, plan_id, "RUNNING", done, total)

        return PlanRunner(
            self.fleet.host_for(effects, build, quotas),
            effects,
            envelope_id,
            self.rules.clock,
            is_cancelled=lambda: self.is_cancelled(envelope_id),
            on_progress=on_progress,
        )

    def engines(self, envelope_id: str, plan_id: str) -> Engines:
        """Return the engines for SQL and pipelines. No process starts before one is used."""
        quotas = self._quotas()

        def host() -> SandboxHost:
            return self.fleet.host_for((EFFECT,), BUILD, quotas)

        def host_of_programs() -> SandboxHost:
            return self.fleet.host_for((pipeline_engine.EFFECT,), pipeline_engine.BUILD, quotas)

        def is_cancelled() -> bool:
            return self.is_cancelled(envelope_id)

        def report_status(done: int, total: int, what: str) -> None:
            self.report_status(envelope_id, plan_id, "CHECKING", done, total, what)

        memory = quotas.memory_bytes * _ENGINE_MEMORY_PERCENT // 100
        engine = Engine(host, envelope_id, memory, is_cancelled)
        programs = pipeline_engine.PipelineEngine(host_of_programs, envelope_id, is_cancelled)
        return Engines(engine, programs, self.work, self.servers(envelope_id, plan_id), report_status)

    def servers(self, envelope_id: str, plan_id: str = "") -> Servers:
        """Return access to databases on servers. No process starts and no connection opens before it is used."""
        quotas = self._quotas()
        locks = LockBudget()

        def host() -> SandboxHost:
            return self.fleet.host_for((postgres_engine.EFFECT,), postgres_engine.BUILD, quotas)

        def find(name: str) -> PostgresServer:
            connection = self.rules.config().connections.get(name)
            if not isinstance(connection, PostgresqlConnection):
                raise RefusedError(
                    Reason.CAPABILITY_UNSUPPORTED,
                    "remit.yaml no longer has a PostgreSQL connection of this name",
                    where=f"connection {name}",
                    next_step="Add it to `connections` again.",
                )
            return find_server(name, connection, self.rules.environ)._replace(locks=locks)

        def report_status(done: int, total: int) -> None:
            self.report_status(envelope_id, plan_id, "CHECKING", done, total)

        return Servers(
            PostgresEngine(host, envelope_id, lambda: self.is_cancelled(envelope_id)),
            PostgresEngine(host, envelope_id, lambda: False),
            find,
            self.work,
            report_status if plan_id else _ignore_progress,
        )

    def _quotas(self, steps: StepPlan | None = None) -> Quotas:
        limits, timeouts = self.rules.config().limits, self.rules.config().timeouts
        traffic = max(limits.max_io_bytes, 4 * limits.max_backup_bytes, _traffic_of(steps))
        return Quotas(limits.max_memory_bytes, traffic, traffic, float(timeouts.task))

    def report_status(
        self, envelope_id: str, plan_id: str, phase: Phase, done: int, total: int, what: str = ""
    ) -> None:
        """Report the progress of a run to the caller."""
        self.hooks.on_status(
            StatusUpdate(
                envelope_id=envelope_id,
                plan_id=plan_id,
                phase=phase,
                done=done,
                total=total,
                what=what[:1_000],
                at=self.now(),
            )
        )


def _ignore_progress(_done: int, _total: int) -> None:
    """Ignore progress that no caller asked for."""


def _traffic_of(steps: StepPlan | None) -> int:
    """Return the bytes to allow. Each state is hashed, copied and hashed again.

    Rounded up, so that runs can share a sandbox.
    """
    states = [state for step in steps.steps for state in (step.before, step.after)] if steps is not None else []
    return 1 << (4 * sum(state.size for state in states if state is not None)).bit_length()

"""The sandboxes of one workspace: one for each set of effects and each build of their processes.

Each is started at its first use, and ends with the fleet. Thread-safe.
"""

import importlib.util
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from remit.contracts.config.config import SystemConfig
from remit.core.errors import Reason, UsageError
from remit.effects.tasks import capabilities as no_effect_capability
from remit.fs.atomic_write import make_private_directory
from remit.sandbox.host import SandboxHost
from remit.sandbox.orders import Build, Order, Quotas
from remit.sandbox.zygote_pool import TASKS
from remit.store.process_identity import lock_path, this_process

_TRIAL: Final = no_effect_capability.CAPABILITY


class _Kind(NamedTuple):
    """The key of a sandbox. Requests with an equal key share one."""

    effects: tuple[str, ...]
    build: Build
    quotas: Quotas


class Fleet:
    """All sandboxes of a workspace. `hosts` is the folder of the locks that show recovery which processes run."""

    def __init__(self, config: SystemConfig, hosts: Path) -> None:
        self._config = config
        self._hosts = hosts
        self._lock = threading.Lock()
        self._sandboxes: dict[_Kind, SandboxHost] = {}

    def host_for(self, effects: tuple[str, ...], build: Build = TASKS, quotas: Quotas | None = None) -> SandboxHost:
        """Return a sandbox that has passed a trial, so that a machine without one is found before any claim.

        Without `quotas`, those of a task in the configuration are used. Raises EnvironmentFailureError.
        """
        kind = _Kind(tuple(dict.fromkeys((*effects, _TRIAL.effect))), build, quotas or self._quotas())
        with self._lock:
            if kind not in self._sandboxes:
                # An older sandbox may have a running task, so it is closed only with the fleet.
                self._sandboxes[kind] = self._make(kind)
            return self._sandboxes[kind]

    @property
    def ready(self) -> int:
        """The number of processes of all sandboxes that wait for an order."""
        with self._lock:
            return sum(sandbox.ready for sandbox in self._sandboxes.values())

    def close(self) -> None:
        with self._lock:
            for sandbox in self._sandboxes.values():
                sandbox.close()
            self._sandboxes.clear()

    def _make(self, kind: _Kind) -> SandboxHost:
        make_private_directory(self._hosts)
        sandbox = SandboxHost(
            kind.effects,
            kind.quotas,
            confined=self._config.sandbox == "required",
            lock=lock_path(self._hosts, this_process()),
            import_paths=import_paths(kind.effects, kind.build.packages),
            build=kind.build,
        )
        run_trial(sandbox)
        return sandbox

    def _quotas(self) -> Quotas:
        limits, seconds = self._config.limits, float(self._config.timeouts.file_operation)
        return Quotas(limits.max_memory_bytes, limits.max_io_bytes, limits.max_io_bytes, seconds)


def run_trial(sandbox: SandboxHost) -> None:
    """Run a task that does nothing. If the sandbox fails to run it, close the sandbox and raise."""
    try:
        sandbox.run(Order(_TRIAL.effect, "run", "trial", _TRIAL.capability_id, {}, reversible=True, part_name=""))
    except BaseException:
        sandbox.close()
        raise


def import_paths(effects: Sequence[str], packages: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the folders that contain the packages of these effects, and these packages. Imports none of them."""
    found: dict[str, None] = {}
    for name, why in (*((effect.partition(":")[0], effect) for effect in effects), *((one, one) for one in packages)):
        package = name.partition(".")[0]
        spec = importlib.util.find_spec(package)
        if spec is None or (spec.origin is None and not spec.submodule_search_locations):
            raise UsageError(Reason.MISUSE, f"there is no package {package!r}, which {why!r} needs", where="registry")
        for place in spec.submodule_search_locations or [spec.origin or ""]:
            found[str(Path(place).resolve().parent)] = None
    return tuple(found)

"""The checks of `remit doctor`, in their order.

The checks only read, with one exception: one check writes a 4 KiB file to the state directory, syncs it and removes it,
to measure a durable write. No function here raises. A check that cannot run is a failed check.
"""

import os
import sqlite3
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from remit.contracts.config.config import SystemConfig
from remit.core.ids import Clock
from remit.diagnostics import browser, disk, machine, workspace
from remit.diagnostics.check import Check, Status, Topic
from remit.fs.state_dir import StateDirectory, locate_state
from remit.ledger.heads import Anchors
from remit.sandbox.kernel_probes import clock_is_synchronised, probe_kernel
from remit.store.connection import Store


@dataclass(frozen=True, slots=True)
class Checkup:
    """All findings about the machine and the workspace."""

    machine: tuple[Check, ...]
    workspace: tuple[Check, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether no check failed. Warnings are allowed."""
        return not self.count("fail")

    def count(self, status: Status) -> int:
        return sum(1 for check in (*self.machine, *self.workspace) if check.status == status)

    def as_json(self) -> dict[str, Any]:
        return {
            "passed": self.passed,
            "counts": {status: self.count(status) for status in ("ok", "warn", "fail", "absent")},
            "machine": [check.as_json() for check in self.machine],
            "workspace": [check.as_json() for check in self.workspace],
        }


def check_machine(environ: Mapping[str, str], clock: Clock, *, has_sqlite_ledger: bool = True) -> tuple[Check, ...]:
    """Check what every workspace on this machine needs. `has_sqlite_ledger`: the ledger is not in PostgreSQL."""
    search_path = environ.get("PATH", os.defpath)
    return (
        machine.PYTHON.run(lambda: machine.check_python(sys.version_info[:3], wide=sys.maxsize > 2**32)),
        *_run_several(machine.SYSTEM.run, lambda: machine.check_kernel(probe_kernel())),
        machine.SQLITE.run(lambda: machine.check_sqlite(sqlite3.sqlite_version_info, is_used=has_sqlite_ledger)),
        machine.POSTGRES_DRIVER.run(lambda: machine.check_postgres_driver(_installed_version("psycopg"))),
        machine.SQL_ENGINE.run(lambda: _check_extra(machine.SQL_ENGINE, "sql", "duckdb")),
        machine.WEB_SERVER.run(lambda: _check_extra(machine.WEB_SERVER, "web", "fastapi", "jinja2", "uvicorn")),
        machine.MCP_SERVER.run(lambda: _check_extra(machine.MCP_SERVER, "mcp", "mcp", "uvicorn")),
        machine.CHROMIUM.run(lambda: _check_browser_program(search_path)),
        browser.DRIVER.run(lambda: browser.check_driver(_installed_version("playwright"))),
        browser.CONFINEMENT.run(lambda: browser.check_confinement(machine.find_browser(search_path))),
        machine.CLOCK.run(lambda: machine.check_clock(clock(), clock_is_synchronised())),
        machine.UMASK.run(lambda: machine.check_umask(machine.read_umask())),
        machine.USER.run(lambda: machine.check_user(os.geteuid())),
        machine.ENVIRONMENT.run(lambda: machine.check_environment(environ)),
    )


def check_state_home(environ: Mapping[str, str]) -> tuple[Check, ...]:
    """Check the place of a future state directory, for a folder without a workspace."""

    def home() -> Path:
        # A device is no workspace, so no overlap is found, and the result is the parent of all state directories.
        return locate_state(Path(os.devnull), environ).path.parent

    return (
        disk.STATE.run(lambda: disk.check_state_home(home())),
        disk.FILESYSTEM.run(lambda: _check_filesystem(home(), has_database=True)),
        disk.SPACE.run(lambda: disk.check_space(*disk.read_space(disk.nearest_folder(home())))),
    )


def check_settings(config: SystemConfig, state: StateDirectory) -> tuple[Check, ...]:
    """Check the settings of a valid remit.yaml against this machine."""
    return (
        workspace.BASES.run(lambda: workspace.check_bases(config.base_directories, state.path)),
        workspace.SANDBOX.run(lambda: workspace.check_sandbox(config.sandbox)),
    )


def check_workspace(
    state: StateDirectory, open_store: Callable[[], Store], clock: Clock, *, has_database: bool
) -> tuple[Check, ...]:
    """Check the state directory, keys and store. `has_database`: the ledger is in the state directory."""
    place = disk.STATE.run(lambda: disk.check_state_directory(state))
    if not os.path.isdir(state.path):
        return (place,)  # all checks below would fail for the same reason
    return (
        place,
        disk.FILESYSTEM.run(lambda: _check_filesystem(state.path, has_database=has_database)),
        disk.SPACE.run(lambda: disk.check_space(*disk.read_space(disk.nearest_folder(state.path)))),
        disk.DURABLE.run(lambda: disk.check_durable_write(disk.time_durable_write(state.path))),
        workspace.KEY_FILES.run(lambda: workspace.check_key_files(state.keys)),
        workspace.KEYRING.run(lambda: workspace.check_keyring(state.keys)),
        *_run_several(workspace.STORE.run, lambda: workspace.check_store(open_store(), clock, Anchors(state.anchors))),
    )


def _run_several(run: Callable[[Callable[[], Check]], Check], make_checks: Callable[[], list[Check]]) -> list[Check]:
    """Run checks that share one inspection. If the inspection fails, one failed check replaces them."""
    found: list[Check] = []

    def first() -> Check:
        found.extend(make_checks())
        return found[0]

    return [run(first), *found[1:]]


def _installed_version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _check_extra(topic: Topic, extra: str, *packages: str) -> Check:
    return machine.check_extra(topic, extra, {package: _installed_version(package) for package in packages})


def _check_browser_program(search_path: str) -> Check:
    program = machine.find_browser(search_path)
    return machine.check_browser(program, machine.read_browser_version(program) if program else None)


def _check_filesystem(path: Path, *, has_database: bool) -> Check:
    try:
        mounts = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape")
    except OSError:
        mounts = ""
    folder = disk.nearest_folder(path).resolve()
    return disk.check_filesystem(disk.find_mount(str(folder), mounts), has_database=has_database)

"""Checks of the machine and of this process. The values to check are arguments, so tests can pass any value."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

from remit.core.faultpoints import setting_problem
from remit.diagnostics.check import Check, Topic
from remit.sandbox.kernel_probes import LANDLOCK_NEEDED, KernelFeatures, Probe

PYTHON: Final = Topic("Python", "everything")
SYSTEM: Final = Topic("system", "everything")
LANDLOCK: Final = Topic("Landlock", "running effects")
CONFINEMENT: Final = Topic("confinement", "running effects")
SECCOMP: Final = Topic("seccomp", "running effects")
NO_NEW_PRIVS: Final = Topic("no_new_privs", "running effects")
OPENAT2: Final = Topic("openat2", "opening files below a root")
RENAMEAT2: Final = Topic("renameat2", "moving files without replacing any")
SQLITE: Final = Topic("SQLite", "a ledger in SQLite")
POSTGRES_DRIVER: Final = Topic("PostgreSQL driver", "a ledger on PostgreSQL")
SQL_ENGINE: Final = Topic("DuckDB", "SQL in plans")
WEB_SERVER: Final = Topic("web server", "remit serve")
MCP_SERVER: Final = Topic("MCP server", "remit mcp")
CHROMIUM: Final = Topic("Chromium", "browser actions")
CLOCK: Final = Topic("clock", "leases, expiry and the times in the ledger")
UMASK: Final = Topic("umask", "files that effects create")
USER: Final = Topic("user", "keeping keys apart")
ENVIRONMENT: Final = Topic("environment", "ordinary use")

OLDEST_PYTHON: Final = (3, 11)
OLDEST_SQLITE: Final = (3, 37, 0)  # STRICT tables
# Earlier versions have the WAL-reset race (sqlite.org/wal.html#walresetbug). Two older release lines have the fix too.
WAL_RESET_FIXED: Final = (3, 51, 3)
WAL_RESET_BACKPORTS: Final = {(3, 44): 6, (3, 50): 7}
EARLIEST_YEAR: Final = 2025
LATEST_YEAR: Final = 2100
BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
VERSION_SECONDS: Final = 3.0
DEBUGGING: Final = {
    "REMIT_FAULT": "this process is set to crash on purpose",
    "REMIT_DEBUG": "errors print the full traceback",
}
OTHERS_MAY_WRITE: Final = 0o002
OWNER: Final = 0o700

_NEWER_KERNEL: Final = "Boot Linux 6.2 or newer, with `landlock` in CONFIG_LSM or in lsm= on the kernel's command line."
_CONTAINER: Final = "In a container, allow it in the seccomp profile. Otherwise boot a newer kernel."


def check_python(version: tuple[int, int, int], *, wide: bool) -> Check:
    shown = ".".join(map(str, version))
    if version[:2] < OLDEST_PYTHON:
        return PYTHON.fail(shown, "Install Python 3.11 or newer: apt-get install python3")
    if not wide:
        return PYTHON.fail(f"{shown}, 32-bit", "Install a 64-bit Python: apt-get install python3")
    return PYTHON.ok(shown)


def check_kernel(features: KernelFeatures) -> list[Check]:
    """Check the features that the sandbox needs. An effect runs only with all of them."""
    return [
        _check_system(features),
        _check_landlock(features),
        _check_probe(CONFINEMENT, features.confinement, _NEWER_KERNEL if not features.landlock.works else _CONTAINER),
        _check_probe(SECCOMP, features.seccomp, f"CONFIG_SECCOMP_FILTER is needed. {_CONTAINER}"),
        _check_probe(NO_NEW_PRIVS, features.no_new_privs, _CONTAINER),
        _check_probe(OPENAT2, features.openat2, f"Linux 5.6 or newer is needed. {_CONTAINER}"),
        _check_probe(RENAMEAT2, features.renameat2, _CONTAINER),
    ]


def check_sqlite(version: tuple[int, int, int], *, is_used: bool = True) -> Check:
    shown = ".".join(map(str, version))
    if not is_used:
        return SQLITE.ok(f"{shown}, not used: the ledger is in PostgreSQL")
    if version < OLDEST_SQLITE:
        return SQLITE.fail(
            f"{shown}, too old for strict tables", "Use a Python that is linked to SQLite 3.37 or newer."
        )
    if not _has_wal_reset_fix(version):
        return SQLITE.warn(
            f"{shown} can, very rarely, damage a database that two processes write to at the same instant",
            "Update to SQLite 3.51.3 (or 3.50.7, 3.44.6) if your system offers it. Until then keep backups"
            " and check them: remit ledger verify",
        )
    return SQLITE.ok(shown)


def check_postgres_driver(version: str | None) -> Check:
    if version is None:
        return POSTGRES_DRIVER.absent("not installed", "Only for a ledger on PostgreSQL: pip install 'remit[postgres]'")
    return POSTGRES_DRIVER.ok(f"psycopg {version}")


def check_extra(topic: Topic, extra: str, versions: Mapping[str, str | None]) -> Check:
    """Check packages that only one part of Remit needs. `versions`: by package, None if it is not installed."""
    missing = [package for package, version in versions.items() if version is None]
    if missing:
        printed = "not installed" if len(missing) == len(versions) else f"not installed: {', '.join(missing)}"
        return topic.absent(printed, f"Only for {topic.needed_for}: pip install 'remit[{extra}]'")
    return topic.ok(", ".join(f"{package} {version}" for package, version in versions.items()))


def find_browser(search_path: str) -> str | None:
    """Find the first browser on the path. Skips relative entries, as the current folder may belong to another user."""
    absolute = os.pathsep.join(entry for entry in search_path.split(os.pathsep) if os.path.isabs(entry))
    return next((found for name in BROWSERS if absolute and (found := shutil.which(name, path=absolute))), None)


def read_browser_version(program: str) -> str | None:
    """Return the first line that the program prints for `--version`, or None."""
    try:
        done = subprocess.run(  # noqa: S603 - a program on the user's own path
            [program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=VERSION_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    printed = done.stdout.decode("utf-8", errors="replace").strip()
    return printed.splitlines()[0] if done.returncode == 0 and printed else None


def check_browser(program: str | None, version: str | None) -> Check:
    if program is None:
        return CHROMIUM.warn("not found", "apt-get install chromium (only browser actions need it)")
    if version is None:
        return CHROMIUM.warn(f"{program} does not report its version", f"See the error: {program} --version")
    return CHROMIUM.ok(f"{version} at {program}")


def check_clock(now: datetime, synchronised: bool | None) -> Check:  # noqa: FBT001 - it has three values, so it is not a flag
    shown = now.strftime("%Y-%m-%d %H:%M:%S UTC")
    if not EARLIEST_YEAR <= now.year <= LATEST_YEAR:
        return CLOCK.fail(f"{shown} cannot be right", "Set the clock: timedatectl set-ntp true")
    if synchronised is None:
        return CLOCK.absent(f"{shown}; the Linux kernel does not report whether it is synchronised", "See: timedatectl")
    if not synchronised:
        advice = "timedatectl set-ntp true (or: apt-get install chrony). The host of a virtual machine may do this."
        return CLOCK.warn(f"{shown}, not synchronised as far as the Linux kernel knows", advice)
    return CLOCK.ok(f"{shown}, synchronised")


def check_umask(mask: int) -> Check:
    shown = f"{mask:04o}"
    if mask & OWNER:
        return UMASK.fail(f"{shown} removes your own rights", "umask 022")
    if not mask & OTHERS_MAY_WRITE:
        return UMASK.warn(f"{shown} lets all users write to new files", "umask 022")
    return UMASK.ok(shown)


def read_umask() -> int:
    """Return the umask.

    It is set, which all threads see for a moment, only if the Linux kernel does not report it.
    """
    try:
        lines = Path("/proc/self/status").read_text("ascii", "replace").splitlines()
        return next(int(line.split()[1], 8) for line in lines if line.startswith("Umask:"))
    except (OSError, StopIteration):
        mask = os.umask(0o077)
        os.umask(mask)
        return mask


def check_user(user_id: int) -> Check:
    if user_id == 0:
        return USER.warn(
            "root: file permissions do not restrict it", "It works, but a separate account is safer: adduser remit"
        )
    return USER.ok(f"user {user_id}")


def check_environment(environ: Mapping[str, str]) -> Check:
    found = [name for name in DEBUGGING if environ.get(name)]
    mistake = setting_problem(environ["REMIT_FAULT"]) if "REMIT_FAULT" in found else ""
    if mistake:
        return ENVIRONMENT.fail(f"REMIT_FAULT {mistake}; no other command works with it", "unset REMIT_FAULT")
    if found:
        listed = "; ".join(f"{name} is set: {DEBUGGING[name]}" for name in found)
        return ENVIRONMENT.warn(listed, f"unset {' '.join(found)}")
    return ENVIRONMENT.ok("no variable for debugging is set")


def _check_system(features: KernelFeatures) -> Check:
    shown = f"{features.system} {features.release} on {features.machine}"
    if features.system != "Linux":
        return SYSTEM.fail(shown, "Effects run on Linux only. Use a Linux machine, virtual machine or container.")
    return SYSTEM.ok(shown)


def _check_landlock(features: KernelFeatures) -> Check:
    if features.landlock.works:
        return LANDLOCK.ok(features.landlock.found)
    return LANDLOCK.fail(f"{features.landlock.found}; ABI {LANDLOCK_NEEDED} or newer is needed", _NEWER_KERNEL)


def _check_probe(topic: Topic, probe: Probe, advice: str) -> Check:
    return topic.ok(probe.found) if probe.works else topic.fail(probe.found, advice)


def _has_wal_reset_fix(version: tuple[int, int, int]) -> bool:
    patched = WAL_RESET_BACKPORTS.get(version[:2])
    return version >= WAL_RESET_FIXED or (patched is not None and version[2] >= patched)

"""The machine: each fault is graded and answered with what to do."""

import dataclasses
import os
import platform
import sqlite3
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from remit.core.ids import system_clock
from remit.diagnostics import machine
from remit.diagnostics.checkup import check_machine
from remit.sandbox.kernel_probes import KernelFeatures, Probe, unsupported
from tests.diagnostics.sound_workspace import checks_by_name
from tests.support.patience import SOON

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


def _all_features(machine_name: str = "x86_64") -> KernelFeatures:
    yes = Probe(True, "works")
    return KernelFeatures("Linux", "6.12", machine_name, 6, yes, yes, yes, yes, yes, yes)


def test_the_machine_is_graded_and_every_fault_has_its_next_step(subtests: pytest.Subtests) -> None:
    for check, status, next_step in [
        (machine.check_python((3, 11, 0), wide=True), "ok", ""),
        (machine.check_python((3, 10, 9), wide=True), "fail", "Install Python 3.11"),
        (machine.check_python((3, 12, 1), wide=False), "fail", "64-bit"),
        (machine.check_sqlite((3, 36, 0)), "fail", "SQLite 3.37"),
        (machine.check_sqlite((3, 40, 1)), "warn", "remit ledger verify"),
        (machine.check_sqlite((3, 40, 1), is_used=False), "ok", ""),
        (machine.check_sqlite((3, 51, 2)), "warn", "3.51.3"),
        (machine.check_sqlite((3, 51, 3)), "ok", ""),
        (machine.check_sqlite((3, 50, 6)), "warn", "3.50.7"),
        (machine.check_sqlite((3, 50, 7)), "ok", ""),
        (machine.check_sqlite((3, 44, 6)), "ok", ""),
        (machine.check_sqlite((3, 45, 9)), "warn", "3.51.3"),
        (machine.check_sqlite((3, 53, 0)), "ok", ""),
        (machine.check_postgres_driver(None), "absent", "remit[postgres]"),
        (machine.check_postgres_driver("3.3.0"), "ok", ""),
        (machine.check_extra(machine.MCP_SERVER, "mcp", {"mcp": None, "uvicorn": "1"}), "absent", "remit[mcp]"),
        (machine.check_extra(machine.SQL_ENGINE, "sql", {"duckdb": "2.0"}), "ok", ""),
        (machine.check_browser(None, None), "warn", "apt-get install chromium"),
        (machine.check_browser("/usr/bin/chromium", None), "warn", "/usr/bin/chromium --version"),
        (machine.check_browser("/usr/bin/chromium", "Chromium 140"), "ok", ""),
        (machine.check_clock(NOW, True), "ok", ""),
        (machine.check_clock(NOW, False), "warn", "timedatectl set-ntp true"),
        (machine.check_clock(NOW, None), "absent", "timedatectl"),
        (machine.check_clock(datetime(1970, 1, 1, tzinfo=UTC), True), "fail", "timedatectl set-ntp true"),
        (machine.check_clock(datetime(2160, 1, 1, tzinfo=UTC), True), "fail", "timedatectl set-ntp true"),
        (machine.check_umask(0o022), "ok", ""),
        (machine.check_umask(0o002), "ok", ""),
        (machine.check_umask(0o077), "ok", ""),
        (machine.check_umask(0o000), "warn", "umask 022"),
        (machine.check_umask(0o777), "fail", "umask 022"),
        (machine.check_user(0), "warn", "adduser"),
        (machine.check_user(1000), "ok", ""),
        (machine.check_environment({"REMIT_STATE": "/x"}), "ok", ""),
        (machine.check_environment({"REMIT_FAULT": "append.begun"}), "warn", "unset REMIT_FAULT"),
        (
            machine.check_environment({"REMIT_FAULT": "claim.before_commit", "REMIT_DEBUG": "1"}),
            "warn",
            "unset REMIT_FAULT REMIT_DEBUG",
        ),
        (machine.check_environment({"REMIT_FAULT": "x", "REMIT_DEBUG": "1"}), "fail", "unset REMIT_FAULT"),
    ]:
        with subtests.test(status):
            assert check.status == status
            assert next_step in check.next_step
            assert bool(check.next_step) == (status != "ok")
            assert check.found
            assert check.needed_for


def test_a_kernel_with_everything_passes() -> None:
    assert {check.status for check in machine.check_kernel(_all_features())} == {"ok"}


@pytest.mark.parametrize(
    "abi, found", [(0, "not built into this kernel"), (0, "built in, but switched off at boot"), (2, "ABI 2")]
)
def test_a_kernel_without_landlock_fails_and_the_next_step_names_what_to_boot(abi: int, found: str) -> None:
    no = Probe(False, "not tried: Landlock is too old")
    features = dataclasses.replace(_all_features(), landlock_abi=abi, landlock=Probe(False, found), confinement=no)
    checks = checks_by_name(tuple(machine.check_kernel(features)))
    assert checks["Landlock"].status == "fail"
    assert checks["Landlock"].found == f"{found}; ABI 3 or newer is needed"
    assert "Linux 6.2" in checks["Landlock"].next_step
    assert "lsm=" in checks["Landlock"].next_step
    assert checks["confinement"].status == "fail"
    assert checks["seccomp"].status == "ok"


def test_landlock_that_a_container_forbids_is_distinguished_from_a_missing_one() -> None:
    refused = Probe(False, "a process cannot restrict itself (EPERM: Operation not permitted)")
    checks = checks_by_name(tuple(machine.check_kernel(dataclasses.replace(_all_features(), confinement=refused))))
    assert checks["Landlock"].status == "ok"
    assert checks["confinement"].status == "fail"
    assert "container" in checks["confinement"].next_step


def test_another_system_than_linux_fails_whole() -> None:
    checks = machine.check_kernel(unsupported("Darwin", "25.0", "arm64", "not Linux"))
    assert {check.status for check in checks} == {"fail"}
    assert "Linux machine" in checks[0].next_step
    assert [check.found.startswith("not Linux") for check in checks[1:]] == [True] * 6


def test_the_machine_underneath_answers_every_check() -> None:
    checks = checks_by_name(check_machine(os.environ, system_clock))
    assert list(checks)[:3] == ["Python", "system", "Landlock"]
    assert checks["Python"].found == platform.python_version()
    assert checks["SQLite"].found.startswith(sqlite3.sqlite_version)
    assert checks["umask"].found == f"{machine.read_umask():04o}"
    assert not [check for check in checks.values() if "the check itself failed" in check.found]


def test_a_browser_is_not_taken_from_the_folder_at_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = tmp_path / "chromium"
    planted.write_text("#!/bin/sh\ntouch pwned\n")
    planted.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    assert machine.find_browser(os.pathsep.join([".", "", "bin/.."])) is None
    assert machine.find_browser(f".{os.pathsep}{tmp_path}") == str(planted)


def test_a_browser_that_hangs_or_fails_has_no_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "VERSION_SECONDS", 0.2)
    program = tmp_path / "chromium"
    for script in ("exec sleep 90", "exit 3", "true", "printf '\\377' >&2; exit 1"):
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        started = time.monotonic()
        assert machine.read_browser_version(str(program)) is None
        assert time.monotonic() - started < SOON
    assert machine.read_browser_version(str(tmp_path / "nothing")) is None
    program.write_text("#!/bin/sh\necho Chromium 140.0; echo more\n")
    assert machine.read_browser_version(str(program)) == "Chromium 140.0"

"""What browser actions stand on."""

import os
import tempfile
from pathlib import Path

import pytest

from remit.diagnostics import browser, machine


def test_the_check_reports_the_driver_or_how_to_install_it() -> None:
    assert browser.check_driver("1.60.0").found == "playwright 1.60.0"
    absent = browser.check_driver(None)
    assert (absent.status, "remit[browser]" in absent.next_step) == ("absent", True)


def test_without_chromium_there_is_nothing_to_confine() -> None:
    assert browser.check_confinement(None).status == "absent"


def test_here_it_can_be_confined() -> None:
    program = machine.find_browser(os.environ["PATH"])
    assert program is not None
    check = browser.check_confinement(program)
    assert (check.status, check.found) == ("ok", "Remit's network only, and Chromium's own sandbox")


def test_a_chromium_that_its_user_may_not_run_is_a_warning_with_its_reason() -> None:
    if os.geteuid() != 0:
        pytest.skip("an ordinary user may run its own programs")
    # Not in a folder that is hidden from Chromium, wherever these tests are.
    with tempfile.TemporaryDirectory(dir="/var/lib") as folder:
        program = Path(folder) / "chromium"
        program.write_text("#!/bin/sh\n")
        program.chmod(0o700)
        check = browser.check_confinement(str(program))
    assert check.status == "warn"
    assert f"could not execute {program} as user 65534: Permission denied" in check.found
    assert "sandbox: unsafe-none" in check.next_step


def test_a_chromium_below_tmp_is_a_warning(tmp_path: Path) -> None:
    if not str(tmp_path).startswith("/tmp/"):  # noqa: S108
        pytest.skip("temporary files are elsewhere")
    check = browser.check_confinement(str(tmp_path / "chromium"))
    assert (check.status, "use a Chromium that is installed below /tmp" in check.found) == ("warn", True)

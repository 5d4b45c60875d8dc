"""Checks of the requirements of browser actions other than Chromium itself: its driver and its confinement."""

import os
from typing import Final

from remit.browser.chromium.confinement import probe_confinement
from remit.browser.chromium.executable import find_user
from remit.contracts.config.browser import Browser
from remit.core.errors import EnvironmentFailureError
from remit.diagnostics.check import Check, Topic
from remit.observability.browser_metrics import INSTALL

DRIVER: Final = Topic("browser driver", "browser actions")
CONFINEMENT: Final = Topic("browser confinement", "browser actions")


def check_driver(version: str | None) -> Check:
    if version is None:
        return DRIVER.absent("not installed", f"Only for browser actions: {INSTALL}")
    return DRIVER.ok(f"playwright {version}")


def check_confinement(program: str | None) -> Check:
    """Test the confinement without Chromium. Its settings alone do not show whether the Linux kernel allows it."""
    if program is None:
        return CONFINEMENT.absent(
            "there is no Chromium to confine", "Only for browser actions: apt-get install chromium"
        )
    try:
        own_sandbox = probe_confinement(program, find_user(Browser(), os.geteuid()))
    except EnvironmentFailureError as problem:
        return CONFINEMENT.warn(problem.what, problem.next_step)
    if not own_sandbox:
        return CONFINEMENT.warn(
            "Remit's network only; Chromium's own sandbox needs a helper that runs as root",
            "Allow its user to create user namespaces, or install the helper: apt-get install chromium-sandbox",
        )
    return CONFINEMENT.ok("Remit's network only, and Chromium's own sandbox")

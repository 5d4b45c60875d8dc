"""The check whether Chromium can be confined on this machine, and the errors if it cannot."""

import errno
import json
import os
import subprocess
import sys
from typing import Final

from remit.browser.chromium import launcher
from remit.core.errors import EnvironmentFailureError, Reason

LAUNCHER: Final = (sys.executable, "-I", "-S", launcher.__file__)
_PROBE_SECONDS: Final = 5.0


def raise_failure(message: bytes) -> None:
    """Raise the failure that the launcher reported. An empty message is a failure too."""
    if not message:
        raise EnvironmentFailureError(
            Reason.SANDBOX_UNAVAILABLE,
            "the launcher of Chromium died",
            next_step="Run `remit doctor` to see the cause, then try again.",
        )
    failure = json.loads(message).get("failed")
    if failure is not None:
        raise _confinement_error(str(failure["what"]), int(failure["errno"]))


def probe_confinement(executable: str, user: tuple[int, int] | None) -> bool:
    """Raise an error if Chromium cannot be confined here. Returns whether its own sandbox works without a helper that
    runs as root.
    """
    settings = {"confined": True, "executable": executable, "hidden": [], "user": user, "listeners": 1}
    try:
        done = subprocess.run(  # noqa: S603 - our own program, in our own interpreter
            [*LAUNCHER, "--probe", json.dumps(settings)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as problem:
        raise EnvironmentFailureError(
            Reason.SANDBOX_UNAVAILABLE, "the launcher of Chromium could not be run"
        ) from problem
    raise_failure(done.stdout)
    has_own_sandbox: bool = json.loads(done.stdout)["own_sandbox"]
    return has_own_sandbox


def _confinement_error(what: str, code: int) -> EnvironmentFailureError:
    why = f": {os.strerror(code)}" if code else ""
    advice = "Change browser.executable, browser.user or the permissions of the files so that this is possible."
    if "namespace" in what or "uid_map" in what:
        advice = (
            "Allow this user to make namespaces (sysctl user.max_user_namespaces; kernel.apparmor_restrict_unprivileged"
            "_userns=0; in a container: a seccomp profile that allows unshare), or run Remit as root."
        )
    if code == errno.ENOSPC and "namespace" in what:
        advice = "sysctl -w user.max_net_namespaces=1000 user.max_user_namespaces=1000"
    return EnvironmentFailureError(
        Reason.SANDBOX_UNAVAILABLE,
        f"Chromium cannot be confined here: could not {what}{why}",
        next_step=f"{advice} With `sandbox: unsafe-none` in remit.yaml it runs unconfined, and every result says so.",
    )

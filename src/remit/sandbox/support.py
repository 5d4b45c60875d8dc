"""A check that this machine can confine an effect, made before the first process is started."""

import functools

from remit.core.errors import EnvironmentFailureError, Reason
from remit.sandbox.kernel_probes import KernelFeatures, probe_kernel


@functools.cache
def require_confinement_here() -> None:
    """Refuse a machine that cannot confine effects. After the first success it is not checked again."""
    require_confinement(probe_kernel())


def require_confinement(kernel: KernelFeatures) -> None:
    """Raise EnvironmentFailureError if a feature that the sandbox needs does not work. The error names it."""
    wanted = ("landlock", "confinement", "seccomp", "no_new_privs", "openat2", "renameat2")
    missing = {name: probe for name in wanted if not (probe := getattr(kernel, name)).works}
    if not missing:
        return
    found = ", ".join(f"{name} ({probe.found})" for name, probe in missing.items())
    if not all(probe.tried for probe in missing.values()):
        raise EnvironmentFailureError(
            Reason.SANDBOX_UNAVAILABLE,
            f"Remit could not test whether this kernel can confine an effect: {found}",
            next_step="Try again with fewer requests at once, or raise the limits on processes and open files"
            " (ulimit -u, -n).",
        )
    raise EnvironmentFailureError(
        Reason.SANDBOX_UNAVAILABLE,
        f"this kernel cannot confine an effect: {found}",
        next_step="`remit doctor` shows what is needed. `sandbox: unsafe-none` in remit.yaml runs effects unconfined.",
    )

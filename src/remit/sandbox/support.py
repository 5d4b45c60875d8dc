"""Whether this machine can confine an effect at all, asked before the first process is started."""

import functools

from remit.core.errors import EnvironmentFailureError, Reason
from remit.sandbox.kernel_probes import KernelFeatures, probe_kernel


@functools.cache
def require_confinement_here() -> None:
    """Asked until the answer is yes, and then not again."""
    require_confinement(probe_kernel())


def require_confinement(kernel: KernelFeatures) -> None:
    """All that the sandbox stands on works here, or EnvironmentFailureError naming what does not."""
    wanted = ("landlock", "confinement", "seccomp", "no_new_privs", "openat2", "renameat2")
    missing = {name: probe for name in wanted if not (probe := getattr(kernel, name)).works}
    if not missing:
        return
    found = ", ".join(f"{name} ({probe.found})" for name, probe in missing.items())
    if not all(probe.tried for probe in missing.values()):
        raise EnvironmentFailureError(
            Reason.SANDBOX_UNAVAILABLE,
            f"it could not be tried whether this kernel confines an effect: {found}",
            next_step="Try again. Run less at once, or raise the limits on processes and open files (ulimit -u, -n).",
        )
    raise EnvironmentFailureError(
        Reason.SANDBOX_UNAVAILABLE,
        f"this kernel cannot confine an effect: {found}",
        next_step="`remit doctor` says what is needed; `sandbox: unsafe-none` in remit.yaml runs without.",
    )

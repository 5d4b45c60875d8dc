"""Does anybody here implement what is asked?"""

from collections.abc import Collection

from remit.core.errors import Reason
from remit.execution.decision import Decision, Denial


def decide_capability(capability_id: str, implemented: Collection[str]) -> Decision:
    if capability_id in implemented:
        return Decision(granted_by=(f"executor implements {capability_id}",))
    known = ", ".join(sorted(implemented)) or "none"
    return Decision(
        denials=(
            Denial(
                Reason.CAPABILITY_UNSUPPORTED,
                f"no executor here implements {capability_id!r}",
                where="manifest, capability_id",
                next_step=f"Implemented are: {known}.",
            ),
        )
    )

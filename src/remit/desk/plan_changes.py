"""What is not as it was when somebody said yes to a plan. To tell about, not to decide by: the door looks itself."""

from typing import Final

from remit.approval.proposals import Proposals
from remit.contracts.config import CONFIG_NAME
from remit.contracts.desk_plans import ChangedSince
from remit.contracts.envelope import Envelope
from remit.contracts.plan_preview import PlanPreviewDocument
from remit.doors.approving import differences
from remit.errors import RemitError
from remit.store.proposals import ProposalRow

_GONE: Final = "this file was there when the plan was approved, and is gone"
_OTHER_SETTINGS: Final = "the configuration was changed since the plan was approved"


def changed_since(proposals: Proposals, row: ProposalRow, now: PlanPreviewDocument) -> tuple[ChangedSince, ...]:
    """Of a plan that was approved; nothing for one that waits for an answer, or whose envelope cannot be read."""
    if row.state != "APPROVED":
        return ()
    try:
        envelope = Envelope.parse(proposals.envelope_of(row))
    except RemitError:
        return ()
    found = list(differences(envelope, now.inputs))
    there = {item.path for item in now.inputs}
    found += [(item.path, _GONE) for item in envelope.inputs if item.path not in there]
    if envelope.config_digest != now.config_digest:
        found.append((CONFIG_NAME, _OTHER_SETTINGS))
    return tuple(ChangedSince(path=path, how=how) for path, how in found[:1_000])

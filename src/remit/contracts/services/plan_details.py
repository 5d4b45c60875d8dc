"""One proposed plan in full, as `GET /v1/plans/ID` answers."""

from typing import ClassVar

from pydantic import Field

from remit.contracts.base import LARGE
from remit.contracts.plans.agent_views import AgentPlanPreview
from remit.contracts.services.plans import ProposalView
from remit.parsing import Bounds


class ProposalDetails(ProposalView):
    """One proposed plan, with what its text says as long as no preview is stored."""

    bounds: ClassVar[Bounds] = LARGE._replace(max_bytes=LARGE.max_bytes + (2 << 20))

    plan_text: AgentPlanPreview | None = Field(
        default=None,
        description="For people, while no preview is stored: the operations, statements, values and whole new contents"
        " in the text of the plan. Its effect on files and rows is not known.",
    )

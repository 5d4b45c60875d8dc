"""What a person is shown of a question, by its kind."""

from typing import Any

from remit.contracts.browser.browser import Approval, HTTPPreview
from remit.contracts.services.common import GoalAsked, RequestAsked
from remit.goals.status import WaitingGoal


def view_request(approval: Approval) -> RequestAsked:
    preview = approval.preview
    tree: dict[str, Any] = dict.fromkeys(("method", "url", "way_back"))
    tree |= {"headers": {}, "body": {}, "masked": {}, "arguments": {}}
    if isinstance(preview, HTTPPreview):
        tree |= {"method": preview.method, "url": preview.url, "headers": preview.headers}
        tree |= {"body": preview.body.preview, "masked": preview.body.masked}
    else:
        tree |= {"arguments": preview.arguments, "way_back": preview.way_back}
    return RequestAsked(
        headline=preview.headline,
        effect=preview.estimated_effect,
        action_id=approval.action_id,
        token_jti=approval.token_jti,
        request_digest=approval.request_digest,
        has_picture=approval.screenshot is not None,
        **tree,
    )


def read_risk(approval: Approval) -> str | None:
    """A request of a browser has none of its own: what it would do is said in words."""
    return None if isinstance(approval.preview, HTTPPreview) else approval.preview.risk


def view_goal(goal: WaitingGoal, prompt: str | None = None) -> GoalAsked:
    return GoalAsked(
        user_id=goal.user_id,
        language_tag=goal.language_tag,
        utterance=goal.utterance[:10_000],
        simulation_id=goal.simulation_id,
        title=goal.title[:1_000],
        version=goal.version,
        impact=goal.impact,
        risk=goal.risk,
        fields=dict(goal.fields),
        policies=tuple(each[:1_000] for each in goal.policies),
        problem=goal.problem or None,
        prompt=prompt,
    )

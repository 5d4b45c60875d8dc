"""What an entry of the goal door says, in a few words for people."""

from collections.abc import Mapping
from typing import Any, Final

REF_SHOWN: Final = 12


def render_goal_meaning(kind: str, payload: Mapping[str, Any], actor: str | None) -> str:
    """Empty for an entry of another kind."""
    if kind.startswith("simulation."):
        return _of_dispatch(kind, payload)
    match kind:
        case "agent.step":
            return _joined(payload.get("event"), payload.get("reason_code"), payload.get("simulation_id"))
        case "agent.confirmation":
            token = payload.get("accepted_token")
            return _joined(payload.get("verdict"), f"by “{token}”" if token else "", payload.get("language_tag"))
        case "agent.access":
            return _joined(payload.get("verdict"), payload.get("access_action"), payload.get("user_id"))
        case "agent.approval":
            return _joined("approved" if payload.get("approved") is True else "denied", f"by {actor}")
        case "agent.refused":
            return _joined(payload.get("reason_code"), payload.get("what"), by=": ")
        case "catalogue.state":
            return _joined(
                f"{payload.get('simulation_id')} {payload.get('version')}", payload.get("state"), f"by {actor}"
            )
        case _:
            return ""


def _of_dispatch(kind: str, payload: Mapping[str, Any]) -> str:
    outcome = payload.get("outcome")
    if kind == "simulation.outcome" and isinstance(outcome, dict):
        return str(outcome.get("reason_code", ""))
    return short_refs(str(payload.get("consent", ""))) if kind == "simulation.intent" else ""


def short_refs(text: str) -> str:
    """Digests cut to what tells them apart at a glance; `--json` has them whole."""
    words = (word.rpartition("sha256:") for word in text.split(" "))
    return " ".join(f"{before}sha256:{name[:REF_SHOWN]}" if mark else name for before, mark, name in words)


def _joined(*parts: Any, by: str = ", ") -> str:
    return by.join(part for part in parts if isinstance(part, str) and part)

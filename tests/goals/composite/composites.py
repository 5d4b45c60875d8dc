"""Composite simulations for the goal office: notes are archived, and forms copied, in several steps."""

from typing import Any, Final

from tests.goals.goal_office import POLICY, SIMULATIONS

LOOK: Final[dict[str, Any]] = {
    "id": "look",
    "version": "1",
    "title": "See that it works",
    "impact": "read_only",
    "risk": "LOW",
    "access_action": "ping",
    "rollback": "nothing",
    "binding": {"type": "task", "capability_id": "NO_EFFECT", "inputs": {}},
}
NOTHING: Final[dict[str, Any]] = {
    **{name: value for name, value in LOOK.items() if name != "rollback"},
    "id": "nothing",
    "title": "Do nothing",
    "fields": {"of": {"type": "text", "question": "Which goal?"}},
}
TIDY: Final[dict[str, Any]] = {
    "id": "tidy",
    "version": "1",
    "title": {"en": "Tidy up", "de": "Aufräumen"},
    "impact": "impactful",
    "risk": "MEDIUM",
    "access_action": "tidy",
    "fields": {
        "first": {"type": "identifier", "question": "Which note?"},
        "second": {"type": "identifier", "question": "Which other note?"},
    },
    "phrases": {"en": ["tidy {first} and {second}"], "de": ["räume {first} und {second} auf"]},
    "binding": {
        "type": "composite",
        "steps": [
            {"id": "look", "simulation": "look"},
            {"id": "one", "simulation": "archive-note", "fields": {"note": "{first}"}},
            {"id": "two", "simulation": "copy-form", "fields": {"name": "{second}"}},
        ],
    },
}
COMPOSITE_SIMULATIONS: Final = (*SIMULATIONS, NOTHING, LOOK, TIDY)
COMPOSITE_POLICY: Final = (
    POLICY
    + """
@id("mia-tidies")
permit (principal == User::"acme/mia", action == Action::"tidy", resource);
"""
)

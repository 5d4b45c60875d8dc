"""Composite simulations for the goal office: notes are archived, and forms copied, in several steps."""

from typing import Any, Final

from tests.goals.goal_office import ARCHIVE, PING, POLICY, TOUCH, UNDO_ARCHIVE, UNDO_COPY

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
COPY: Final[dict[str, Any]] = {**TOUCH, "outputs": {"made": {"type": "text", "source": "destination_path"}}}
NOTE: Final[dict[str, Any]] = {
    **ARCHIVE,
    "id": "leave-note",
    "title": "Leave a note",
    "access_action": "leave_note",
    "fields": {
        "name": {"type": "identifier", "question": "Under which name?"},
        "words": {"type": "text", "question": "What shall it say?", "max_length": 500},
    },
    "phrases": {},
    "rollback": "undo-note",
    "binding": {
        "type": "plan",
        "template": {
            "action_plan": [
                {
                    "action_id": "write",
                    "action_type": "FILE_CREATE",
                    "target": "notes/{name}.txt",
                    "operation": {"type": "write", "content": "{words}\n"},
                }
            ]
        },
    },
}
UNDO_NOTE: Final = {
    **UNDO_ARCHIVE,
    "id": "undo-note",
    "title": "Take a note away",
    "access_action": "leave_note",
    "rollback": "leave-note",
}
BACKOFF_MS: Final = (60_000, 300_000)
RETRY: Final = {"max_attempts": 3, "backoff_ms": BACKOFF_MS, "codes": ["SIMULATION_FAILED"]}
SORT: Final[dict[str, Any]] = {
    **TIDY,
    "id": "sort",
    "title": "Sort the desk",
    "access_action": "sort",
    "fields": {
        "first": {"type": "identifier", "question": "Which note?"},
        "second": {"type": "identifier", "question": "Under which name?"},
        "label": {"type": "identifier", "question": "Which label?"},
    },
    "phrases": {"en": ["sort {first} as {second} and {label}"]},
    "binding": {
        "type": "composite",
        "steps": [
            {
                "id": "note",
                "simulation": "leave-note",
                "fields": {"name": "{label}", "words": "{copy.made}"},
                "depends_on": ["copy", "one"],
            },
            {
                "id": "copy",
                "simulation": "copy-form",
                "fields": {"name": "{second}"},
                "depends_on": [],
                "retry": RETRY,
                "timeout_seconds": 7,
            },
            {"id": "one", "simulation": "archive-note", "fields": {"note": "{first}"}, "depends_on": []},
        ],
    },
}
"""In the file the note comes first. It runs last, and says what the copy has made."""
KEEP: Final[dict[str, Any]] = {
    **SORT,
    "id": "sort-and-keep",
    "phrases": {"en": ["sort and keep {first} as {second} and {label}"]},
    "binding": {**SORT["binding"], "keep": True},
}
TWICE: Final[dict[str, Any]] = {
    **SORT,
    "id": "copy-twice",
    "title": "Copy the form twice",
    "access_action": "copy_twice",
    "phrases": {"en": ["twice {first} and {second} and {label}"]},
    "binding": {
        "type": "composite",
        "steps": [
            {"id": "left", "simulation": "copy-form", "fields": {"name": "{first}"}},
            {"id": "right", "simulation": "copy-form", "fields": {"name": "{second}"}},
        ],
    },
}
"""For leo, each of its steps needs the approval of another person."""
COMPOSITE_SIMULATIONS: Final = (
    *(ARCHIVE, UNDO_ARCHIVE, PING, COPY, UNDO_COPY, NOTE, UNDO_NOTE),
    *(NOTHING, LOOK, TIDY, SORT, KEEP, TWICE),
)
COMPOSITE_POLICY: Final = (
    POLICY
    + """
@id("mia-tidies")
permit (
  principal == User::"acme/mia",
  action in [Action::"tidy", Action::"sort", Action::"leave_note", Action::"copy_twice"],
  resource
);

@id("leo-copies-twice")
permit (principal == User::"acme/leo", action == Action::"copy_twice", resource);
"""
)

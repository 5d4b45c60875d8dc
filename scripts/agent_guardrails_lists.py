"""What the rooms of the goal door may import, and who of them may write what. Whatever is not listed is a breach.

A new import that reaches no effect and writes nothing is added here, by whoever has looked at what it can do.
"""

import re
from typing import Final

ANY: Final = frozenset({"*"})


def names(*given: str) -> frozenset[str]:
    return frozenset(given)


LEDGER: Final = {
    "remit.ledger.agent_reading": ANY,  # reads only
    "remit.ledger.agent_rows": names("AccessRow", "ConfirmationRow", "StepRow", "append_agent_row", "row_values"),
    "remit.ledger.append": names("Batch", "Ledger"),
    "remit.ledger.covered": names("require_covered"),
    "remit.ledger.documents": names("Document", "Shelf", "keep_documents", "load_document", "tree_of"),
    "remit.ledger.entry": names("COLUMNS", "Entry", "Event"),
    "remit.ledger.goal_reading": ANY,  # reads only
    "remit.ledger.intake": names("IntakeItem", "read_intake"),
    "remit.ledger.projections": names("append_step"),
    "remit.ledger.seeking": names("not_before_newest"),  # reads only
    "remit.ledger.simulation_states": names("PromotedState", "newest_state_seq", "read_states"),
    "remit.store.claims": names("ClaimKey", "Done", "Running", "read_claim"),
    "remit.store.connection": names("Connection"),
}
PURE: Final = dict.fromkeys(
    (
        "collections",
        "collections.abc",
        "dataclasses",
        "datetime",
        "enum",
        "functools",
        "itertools",
        "json",
        "logging",
        "pathlib",
        "pydantic",
        "re",
        "re2",
        "threading",
        "time",
        "types",
        "typing",
        "unicodedata",
        "urllib.parse",
        "remit.approval.confirmation",
        "remit.canonical",
        "remit.errors",
        "remit.faultpoints",
        "remit.ids",
        "remit.masking",
        "remit.policy.access",
        "remit.policy.decision",
        "remit.printable",
        "remit.turns",
        "remit.untrusted",
        "remit.untrusted.bounds",
        "remit.untrusted.yaml_text",
        "remit.version",
    ),
    ANY,
)
COMMON: Final = {**PURE, **LEDGER, "contextlib": names("contextmanager"), "remit.authority.signing": names("Keyring")}
ONLY_THERE: Final = {
    "agent/catalogue_files.py": {"remit.doors.seen_files": names("MOST_FILES", "SeenFiles")},  # reads only
    "agent/simulation.py": {
        "remit.road": names("Door", "Note", "Notes", "Preview", "Site", "Unsettled", "travel"),
        "remit.recovery": names("Recovered", "recover"),
        "remit.journal": names("Also", "Trace"),
    },
    "goals.py": {
        "remit.approval.people": names("Person"),
        "remit.goal_rules": ANY,
        "remit.recovery": names("Recovered"),
        "remit.state": names("StateDirectory"),
    },
    "goal_rules.py": {
        "remit.doors.policy_files": names("read_policy_files"),
        "remit.doors.seen_files": names("SeenFiles"),  # reads only
    },
}
HANDS: Final = {
    "remit.authority.tokens": names("Wish"),
    "remit.browsing": names("Browsing"),
    "remit.doors.hooks": names("PlanHooks"),
    "remit.journal": names("Journal", "Trace"),
    "remit.plans": names("Plans"),
    "remit.policy.browser": names("CAPABILITY_OF"),
    "remit.tasks": names("Tasks"),
    "remit.tokens": names("Tokens"),
    "remit.goal_browser": ANY,
}
HAND_FILES: Final = names("goal_hands.py", "goal_browser.py")
NOT_FOR_THE_CORE: Final = names("remit.agent.simulation", "remit.agent.hands")
WRITES: Final = ("remit.ledger", "remit.store", "os", "shutil", "io", "tempfile", "sqlite3", "psycopg", "duckdb")

ROUND_THE_BACK: Final = names(
    "__import__", "eval", "exec", "compile", "globals", "locals", "vars", "setattr", "delattr", "breakpoint"
)
HIDDEN: Final = names("__dict__", "__getattribute__", "__subclasses__", "__globals__", "__builtins__", "__setattr__")
SMUGGLED: Final = names(
    *("os", "_os", "sys", "_sys", "io", "_io", "codecs", "shutil", "socket", "subprocess", "tempfile", "sqlite3"),
    *("builtins", "importlib", "modules", "handlers", "FileHandler", "Timer", "Thread"),
)
"""What a harmless module has inside of it, and nobody may take out."""
TO_AN_EFFECT: Final = names("prepare", "run", "has_begun", "hands", "dispatch")
FROM_LISTED_NAMES: Final = {("agent/replay.py", "_row_differs"), ("agent/simulation.py", "checkpoint")}
"""Where a row's fields are gone through by their names."""

WRITERS: Final = {
    "append_step": names("agent/recording.py", "agent/simulation.py", "agent/taking_back.py"),
    "append_agent_row": names("agent/recording.py"),
    "keep_documents": names("agent/recording.py"),
    "Event": names("agent/core.py", "goals.py"),
    "transact": names("agent/core.py", "goals.py"),
}
KINDS: Final = names("'agent.refused'", "APPROVAL")
STATEMENTS: Final = names(
    "execute",
    "executemany",
    "executescript",
    "script",
    "append_for_row",
    "rows",
    "one",
    "stream",
    "begin",
    "commit",
    "connect",
)
"""The core asks no database by itself, not even to read: a statement could be put together out of sight."""
FILE_WRITES: Final = names(
    "open",
    "write",
    "write_text",
    "write_bytes",
    "writelines",
    "mkdir",
    "makedirs",
    "touch",
    "unlink",
    "rename",
    "rmdir",
    "symlink_to",
    "hardlink_to",
    "chmod",
)
WRITING_SQL: Final = re.compile(
    r"\b(INSERT\s+(OR\s+\w+\s+)?INTO|REPLACE\s+INTO|MERGE\s+INTO|UPDATE\s+\S+\s+SET|UPDATE\s*$|DELETE\s+FROM"
    r"|(CREATE|DROP|ALTER)\s+(TABLE|INDEX|VIEW|TRIGGER|UNIQUE|TEMP|ROLE|SCHEMA|DATABASE|FUNCTION)|TRUNCATE\s"
    r"|GRANT\s+\w+\s+ON|REVOKE\s+\w+\s+ON|PRAGMA\s|ATTACH\s+DATABASE|COPY\s+\S+\s+FROM)",
    re.IGNORECASE,
)
TRANSCRIPT: Final = re.compile(r"transcript|conversation_ledger", re.IGNORECASE)
NO_STATEMENT: Final = {("agent/trace.py", "self.rows")} | {
    (name, f"{door}.execute") for name in HAND_FILES for door in ("self._tasks()", "self._browsing()")
}
"""Called like a statement, and none: the rows that a trace was given, and what a door is asked to do."""
READS: Final = names("reading", "glancing")
"""What may be asked of a store."""

ENVELOPES_READ_IN: Final = {
    ("agent/core.py", "_dispatched"),
    ("agent/simulation.py", "parse"),
    ("agent/simulation.py", "recall"),
}
"""Where a recorded envelope is read back."""

MADE_IN: Final = {"SimulationDoor": "goals.py", "SimulationExecutor": "goals.py", "GoalHands": "rooms.py"}
"""One place each."""
PASSES_ON: Final = {("agent/simulation.py", "self.dispatch"), ("testing/goal_load.py", "self.inner.dispatch")}
"""The request that the executor's own door keeps under that name; and the load's stopwatch, around the executor."""

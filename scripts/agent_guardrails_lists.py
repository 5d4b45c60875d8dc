"""Lists of the imports that the packages of goals may have, and of the modules that may write. All others are a breach.

Add a new import here only after you have checked that it reaches no effect and writes nothing.
"""

import re
from typing import Final

ANY: Final = frozenset({"*"})


def names(*values: str) -> frozenset[str]:
    return frozenset(values)


LEDGER: Final = {
    "remit.ledger.goal_queries": ANY,  # reads only
    "remit.ledger.goal_tables": names("AccessRow", "ConfirmationRow", "StepRow", "append_agent_row", "row_values"),
    "remit.ledger.writer": names("Batch", "Ledger"),
    "remit.ledger.proof": names("require_covered"),
    "remit.ledger.documents": names("StoredDocument", "DocumentStore", "store_documents", "load_document", "tree_of"),
    "remit.ledger.entry": names("COLUMNS", "Entry", "NewEntry"),
    "remit.ledger.projections": names("append_step", "TRANSITIONS"),  # a table of events that may follow each other
    "remit.ledger.search": names("not_before_newest"),  # reads only
    "remit.store.claims": names("ClaimKey", "ClaimCompleted", "ClaimHeld", "read_claim"),
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
        "remit.goals.confirmation.parser",
        "remit.core.canonical",
        "remit.core.errors",
        "remit.core.faultpoints",
        "remit.core.ids",
        "remit.core.ttl_cache",
        "remit.masking",
        "remit.goals.access.policy",
        "remit.execution.decision",
        "remit.core.text",
        "remit.core.concurrency",
        "remit.parsing",
        "remit.parsing.limits",
        "remit.parsing.yaml",
        "remit.version",
    ),
    ANY,
)
COMMON: Final = {**PURE, **LEDGER, "contextlib": names("contextmanager"), "remit.crypto.signing": names("Keyring")}
FILE_IMPORTS: Final = {
    "goals/actions/results.py": {  # two words of reports, and no operation
        "remit.execution.recovery": names("NOT_KNOWN"),
        "remit.plans.apply.abandoned": names("is_of_unknown_effect"),
        "remit.plans.apply.verify_and_undo": names("NOT_RESTORED"),
    },
    "goals/catalogue/files.py": {"remit.goals.binding.file_cache": names("MAX_FILES", "FileCache")},  # reads only
    "goals/messages/catalogue.py": {  # reads the texts of the package
        "importlib.resources": names("files"),
        "string": names("Formatter"),
    },
    "goals/simulation_executor.py": {
        "remit.execution.engine": names(
            "Operation", "Note", "Notes", "Parsed", "Preview", "ExecutionContext", "IncompleteError", "run_operation"
        ),
        "remit.execution.recovery": names("NOT_KNOWN", "Recovered", "recover"),
        "remit.execution.journal": names("ExtraRecord", "RequestIds"),
    },
    "goals/service.py": {
        "remit.identity.person": names("Person"),
        "remit.goals.rules_loader": ANY,
        "remit.execution.recovery": names("Recovered"),
        "remit.fs.state_dir": names("StateDirectory"),
    },
    "goals/composite/started_goals.py": {  # asks the core to continue stored goals, and whether a process is dead
        "remit.execution.journal": names("is_orphan"),
        "remit.execution.recovery": names("Recovered"),
        "remit.goals.rules_loader": ANY,
    },
    "goals/rules_loader.py": {
        "remit.goals.access.policy_files": names("read_policy_files"),
        "remit.goals.binding.file_cache": names("FileCache"),  # reads only
    },
    "goals/status.py": {
        "remit.goals.access.cedar": names("policy_reasons"),  # parses a stored text, and decides nothing
    },
}
RUNNER_IMPORTS: Final = {
    "remit.authority.capability_token": names("TokenRequest"),
    "remit.browser.service": names("BrowserActions"),
    "remit.plans.model.callbacks": names("PlanHooks"),
    "remit.execution.journal": names("Journal", "RequestIds"),
    "remit.plans.service": names("Plans"),
    "remit.browser.policy": names("CAPABILITY_OF"),
    "remit.tasks.service": names("Tasks"),
    "remit.identity.tokens": names("Tokens"),
    "remit.goals.actions.browser": ANY,
    "remit.goals.actions.results": ANY,
}
OUTSIDE_THE_CORE: Final = (
    "goals/access",
    "goals/actions",
    "goals/binding/file_cache.py",
    "goals/catalogue/deep_check.py",
    "goals/confirmation",
    "goals/promotion.py",
    "goals/rules_loader.py",
    "goals/service.py",
    "goals/slo.py",
)
"""The parts of `goals` outside its core. Every other module of `goals` belongs to the core, also a new one."""
AROUND_THE_CORE: Final = ("goals/service.py", "goals/rules_loader.py", "goals/actions/*.py")
"""The code that builds the core, its rules, and the code that runs its actions. The same lists apply to it."""
RUNNER_FILES: Final = names("goals/actions/runner.py", "goals/actions/browser.py")
PURE_STEPS: Final = names("goals/composite/layout.py", "goals/composite/order.py", "goals/composite/progress.py")
"""The modules that say which step comes next. They get rows of the ledger, and read no ledger, clock or file."""
WALKING: Final = names("goals/binding/tokenizer.py", "goals/composite/order.py", "goals/finder/values.py")
"""Modules with `while`: along a text of bounded length, or along at most twenty steps."""
NOT_FOR_THE_CORE: Final = names("remit.goals.simulation_executor", "remit.goals.ports")
WRITES: Final = ("remit.ledger", "remit.store", "os", "shutil", "io", "tempfile", "sqlite3", "psycopg", "duckdb")

INDIRECT_ACCESS: Final = names(
    "__import__", "eval", "exec", "compile", "globals", "locals", "vars", "setattr", "delattr", "breakpoint"
)
HIDDEN_ATTRIBUTES: Final = names(
    "__dict__", "__getattribute__", "__subclasses__", "__globals__", "__builtins__", "__setattr__"
)
NESTED_MODULES: Final = names(
    *("os", "_os", "sys", "_sys", "io", "_io", "codecs", "shutil", "socket", "subprocess", "tempfile", "sqlite3"),
    *("builtins", "importlib", "modules", "handlers", "FileHandler", "Timer", "Thread"),
)
"""Names inside harmless modules that a module of goals may not use."""
EFFECT_METHODS: Final = names("prepare", "run", "has_started", "runner", "dispatch")
STEP_METHODS: Final = names("run_cycle", "run_attempt")
"""Methods of the core that may dispatch a step. Outside of the core, only the moves of the driver call them."""
FROM_LISTED_NAMES: Final = {("goals/replay.py", "_row_differs"), ("goals/simulation_executor.py", "checkpoint")}
"""Functions that read the fields of a row by name."""

WRITERS: Final = {
    "append_step": names("goals/recording.py", "goals/simulation_executor.py", "goals/rollback.py"),
    "append_agent_row": names("goals/recording.py"),
    "store_documents": names("goals/recording.py", "goals/simulation_executor.py"),  # there: the outputs of a step
    "NewEntry": names("goals/core.py", "goals/service.py"),
    "transact": names("goals/composite/driver.py", "goals/core.py", "goals/service.py"),  # the driver: a goal's end
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
"""Methods of databases. The core may not call them, not even to read, as it could build a statement at run time."""
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
NO_STATEMENT: Final = {("goals/trace.py", "self.rows")} | {
    (name, f"{service}.execute") for name in RUNNER_FILES for service in ("self._tasks()", "self._browsing()")
}
"""Calls that only look like statements: the rows of a trace, and the operations that the runner requests."""
READS: Final = names("reading", "reading_pooled")
"""The methods of a store that are allowed."""

ENVELOPES_READ_IN: Final = {
    ("goals/core.py", "_dispatch"),
    ("goals/simulation_executor.py", "parse"),
    ("goals/simulation_executor.py", "load_checkpoint"),
}
"""Functions that read a recorded envelope."""

CONSTRUCTED_IN: Final = {
    "SimulationOperation": "goals/service.py",
    "SimulationExecutor": "goals/service.py",
    "GoalActionRunner": "workspace/container.py",
}
"""The only module that constructs each class."""
FORWARDED: Final = {("goals/simulation_executor.py", "self.dispatch"), ("testing/goal_load.py", "self.inner.dispatch")}
"""Allowed uses of the name: a field of the executor's own operation, and the timer of the load test."""

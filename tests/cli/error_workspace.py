"""A workspace in which errors are forced, and what a user sees of them: in text and as JSON."""

import contextlib
import io
import json
import os
import re
import subprocess
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
import duckdb
from click.testing import CliRunner

from remit.authority.capability_token import TokenRequest
from remit.cli.common.errors import PLAN_COMMANDS, report
from remit.cli.common.identity import resolve_caller
from remit.contracts.browser.browser import TokenConstraints
from remit.contracts.goals.error_codes import GOAL_CODES
from remit.contracts.plans.envelope import Envelope
from remit.contracts.plans.error_codes import PLAN_CODES, plan_error
from remit.core.errors import Reason, RemitError
from remit.core.ids import system_clock
from remit.services.plans.service import PlanService
from remit.workspace.workspace import Workspace
from tests.cli.conftest import CommandResult
from tests.goals.goal_office import Office
from tests.plans.project import action, create, plan_of, replace
from tests.support import preloaded
from tests.support.task_workspace import MovableClock

SECRET: Final = "hunter2-correct-horse"
PASSWORD: Final = f"password={SECRET}"
NO_DIGEST: Final = f"sha256:{'0' * 64}"
LONG_AGO: Final = timedelta(days=40)
MIB: Final = 1 << 20
ENDLESS: Final = "SELECT count(*) FROM range(1000000) a, range(1000000) b"
GREEDY: Final = "SELECT array_agg(hash(range) ORDER BY hash(range)) AS a FROM range(30000000)"


class ShownError(NamedTuple):
    """What a user sees of an error: its code, its cause, the next step, and everything that was printed."""

    reason: Reason
    code: str
    cause: str
    next_step: str
    output: str


def edit(target: str, kind: str, **operation: Any) -> dict[str, Any]:
    return action("", "FILE_MODIFY", target, {"type": kind, **operation})


def run_sql(connection: str, query: str, **more: Any) -> dict[str, Any]:
    operation = {"type": "sql_execute", "query": query, "connection": connection}
    return {"action_type": "SQL_EXECUTE", "operation": operation, **more}


def run_pipeline(name: str, *, reversible: bool = True) -> dict[str, Any]:
    operation = {"type": "pipeline_run", "pipeline": name}
    return {"action_type": "PIPELINE_RUN", "reversible": reversible, "operation": operation}


FILES: Final[dict[str, str | bytes]] = {
    **dict.fromkeys(("notes.txt", "hashed.txt", "matched.txt", "lines.txt"), "one\ntwo\n"),
    "two.json": '{"a": {"t": 1}, "b": {"t": 2}}\n',
    "object.json": '{"o": {"a": 1}}\n',
    "list.json": '{"l": [1]}\n',
    "program.bin": f"\0{PASSWORD}".encode(),
    "broken.json": f'{{"password": "{SECRET}"',
    "schema.json": '{"type": "object", "properties": {}}\n',
    ".env": f"{PASSWORD}\ntwo\n",
    "broken.sql": f"SELECT * FROM nothing WHERE a = '{PASSWORD}'",
    "jobs/__init__.py": "def write(job):\n    open('made.txt', 'w').write('made')\n",
}
FAILING_ACTIONS: Final[dict[Reason, dict[str, Any]]] = {
    Reason.FILE_MISSING: replace("", "gone.txt"),
    Reason.FILE_CONFLICT: create("", "notes.txt", PASSWORD),
    Reason.HASH_MISMATCH: replace("", "hashed.txt", expected_hash_before=NO_DIGEST),
    Reason.EDIT_NO_MATCH: replace("", "matched.txt", PASSWORD, "x"),
    Reason.EDIT_OUT_OF_RANGE: edit("lines.txt", "line_delete", start_line=90, end_line=91),
    Reason.EDIT_AMBIGUOUS: edit("two.json", "json_update_value", path="$..t", value=PASSWORD),
    Reason.EDIT_CONFLICT: edit("object.json", "json_add_property", path="$.o", key="a", value=PASSWORD),
    Reason.EDIT_UNSUPPORTED: edit("list.json", "json_add_property", path="$.l", key="a", value=PASSWORD),
    Reason.NOT_TEXT: replace("", "program.bin"),
    Reason.SYNTAX_BROKEN: edit("broken.json", "json_update_value", path="$.a", value=1),
    Reason.SCHEMA_INVALID: {
        **edit("schema.json", "json_add_property", path="$.properties", key="x", value={"type": "nonsense"}),
        "action_type": "SCHEMA_UPDATE",
    },
    Reason.SQL_REFUSED: run_sql("first", f"ATTACH '{PASSWORD}'"),
    Reason.SQL_FAILED: run_sql("second", f"SELECT * FROM nothing WHERE a = '{PASSWORD}'"),
    Reason.TIMED_OUT: run_sql("third", ENDLESS, timeout_seconds=1),
    Reason.RESOURCE_EXHAUSTED: run_sql("fourth", GREEDY),
    Reason.PIPELINE_FAILED: run_pipeline("broken"),
    Reason.DATABASE_BUSY: run_sql("busy", "CREATE TABLE t (a INT)"),
    Reason.DEPENDENCY_FAILED: create("", "after.txt", depends_on=[Reason.FILE_MISSING.value]),
}
"""The actions of one plan that all fail. The id of each is its reason. No two of them name the same file."""


class ErrorWorkspace:
    """A workspace in which errors are forced. Its first entries are forty days old."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        clock = MovableClock()
        clock.offset = -LONG_AGO
        databases = ("first", "second", "third", "fourth", "fifth", "busy")
        server = {"server": {"type": "postgresql", "url_variable": "SHOP_URL"}}
        self.office = Office(
            folder,
            clock=clock,
            limits={"max_memory_bytes": 128 * MIB},
            connections={name: {"type": "duckdb", "path": f"{name}.duckdb"} for name in databases} | server,
            pipelines={
                "broken": {"type": "sql", "connection": "fifth", "steps": ["broken.sql"]},
                "code": {"type": "python", "steps": ["jobs:write"], "writes": ["made.txt"]},
            },
            pipeline_packages=["jobs"],
        )
        self.root = self.office.root
        for name, content in FILES.items():
            self.write(name, content)
        self.copy_state("earlier")
        self.old_envelope = self.approve("old", replace("a", "notes.txt"))
        old_run = self.approve("ran", create("a", "old.txt"))
        self.office.workspace.apply(old_run.canonical())
        self.old_run = old_run.envelope_id
        plans = PlanService(self.office.workspace)
        plan = plan_of(replace("a", "notes.txt"), plan_id="proposed")
        self.old_proposal = plans.propose(resolve_caller(self.office.workspace, None), plan).proposal_id
        plans.finish_previews(60)
        plans.close()
        clock.offset = timedelta(0)

    def close(self) -> None:
        self.office.close()

    # --- files, plans, tokens and copies -----------------------------------------------------------------------------

    def write(self, name: str, content: str | bytes) -> str:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return name

    def write_plan(self, name: str, *actions: dict[str, Any], **more: Any) -> str:
        return self.write(f"{name}.json", plan_of(*actions, plan_id=name, **more))

    def approve(self, name: str, *actions: dict[str, Any]) -> Envelope:
        return self.office.workspace.approve(plan_of(*actions, plan_id=name))

    def run_plan(self, name: str, *actions: dict[str, Any], **more: Any) -> Any:
        """Apply a plan by `remit run`, and return its status."""
        ran = self.run("run", self.write_plan(name, *actions, **more), "--yes", "--json")
        return json.loads(ran.out)["status"]

    def token(self, *capabilities: str, **constraints: Any) -> str:
        request = TokenRequest("bot", capabilities, TokenConstraints(**constraints), timedelta(hours=1))
        return self.office.workspace.tokens.issue(request).text

    def copy_state(self, name: str, source: str = "state") -> Path:
        """Copy the state directory, also in the middle of the work. Another process does it, because of SQLite's locks.

        With it, the same folder has another ledger and other keys.
        """
        copy = self.folder / name
        subprocess.run(["cp", "-r", str(self.folder / source), str(copy)], check=True)
        return copy

    def opened(self, state: Path, ago: timedelta = timedelta(0)) -> Workspace:
        """The same folder with a copied state, while the clock is behind by so much."""
        environ = {"REMIT_STATE": str(state)}
        return Workspace.open(self.root, environ=environ, clock=lambda: system_clock() - ago)

    # --- what a user sees --------------------------------------------------------------------------------------------

    def run(self, *arguments: str, program: str = "", cwd: Path | None = None, **environ: str) -> CommandResult:
        """`remit` with these arguments. `program`: Python code that breaks something first."""
        code = f"{program}\nimport sys\nfrom remit.cli import main\nmain(sys.argv[1:])"
        start = [preloaded.python(), "-c", code] if program else [preloaded.remit()]
        done = subprocess.run(
            [*start, *arguments],
            cwd=cwd or self.root,
            input=b"",
            capture_output=True,
            timeout=60,
            check=False,
            env={**self._environ(), **environ},
        )
        return CommandResult(done.returncode, done.stdout.decode(), done.stderr.decode())

    def command(self, *arguments: str, **options: Any) -> ShownError:
        """The error of a command, which is forced twice: once in text and once as JSON."""
        in_text, as_json = self.run(*arguments, **options), self.run(*arguments, "--json", **options)
        assert 0 not in {in_text.code, as_json.code}, (in_text, as_json)
        return _read_report(in_text.out + in_text.err, as_json.out + as_json.err, arguments[0])

    def preview(self, *actions: dict[str, Any], **more: Any) -> ShownError:
        """The refusal of a plan by its preview."""
        return self.command("preview", self.write_plan("refused", *actions, **more))

    def problem(self, reason: Reason) -> ShownError:
        """The problem of one action in the preview of a plan with many."""
        in_text, document = self._problems
        (problem,) = [each for each in document["problems"] if each["details"]["action_id"] == reason.value]
        (line,) = [line for line in in_text.splitlines() if line.split()[1:2] in ([reason.value], [f"{reason.value}:"])]
        code, cause, next_step = _read_problem(problem)
        assert problem["message"] in line
        assert code in line or reason is Reason.DEPENDENCY_FAILED, "a skipped action is not a failure of its own"
        return ShownError(_find_reason(code), code, cause, next_step, line + json.dumps(problem))

    @cached_property
    def _problems(self) -> tuple[str, Any]:
        actions = [{**each, "action_id": reason.value} for reason, each in FAILING_ACTIONS.items()]
        plan = self.write_plan("failing", *actions, stop_on_error=False, rollback_on_failure=False)
        with contextlib.closing(duckdb.connect(str(self.root / "busy.duckdb"))):
            in_text, as_json = self.run("preview", plan), self.run("preview", plan, "--json")
        assert (in_text.code, as_json.code) == (1, 1), (in_text, as_json)
        return in_text.out, as_json.document

    def outcome(self, plan: str) -> ShownError:
        """The error of a plan that was undone."""
        in_text, as_json = self.run("run", plan, "--yes"), self.run("run", plan, "--yes", "--json")
        (problem,) = as_json.document["errors"]
        code, cause, next_step = _read_problem(problem)
        assert f"  failed    {code}, {problem['message']}\n" in in_text.out
        return ShownError(_find_reason(code), code, cause, next_step, in_text.out + in_text.err + as_json.out)

    def ask(self, *arguments: str, command: click.Command | None = None) -> ShownError:
        """The refusal of a goal. `command` is called in this process, so that a test can break something first."""
        if command is None:
            in_text, as_json = (self.run("ask", *arguments, *option) for option in ((), ("--json",)))
            text, document = in_text.out + in_text.err, as_json.document
        else:
            runs = [
                CliRunner().invoke(command, [*arguments, *option, "-C", str(self.root)], env=self._environ())
                for option in ((), ("--json",))
            ]
            text, document = runs[0].output, json.loads(runs[1].stdout)
        lines = _read_lines(text)
        outcome = document["outcome"]
        assert (outcome["reason_code"], outcome["user_visible_text"]) == (lines["code"], lines["error"])
        (reason,) = [reason for reason, code in GOAL_CODES.items() if code == lines["code"]]
        return ShownError(reason, lines["code"], lines["error"], lines["next"], text + json.dumps(document))

    def _environ(self) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "REMIT_"))}
        return {**own, **self.office.environ, "COLUMNS": "200"}


def show_raised(problem: BaseException, command: str = "") -> ShownError:
    """What the command line prints of an error that something else raised."""
    assert isinstance(problem, RemitError)

    def show(*, as_json: bool) -> str:
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
            assert report(problem, as_json=as_json, arguments=[command]) == problem.exit_code
        return out.getvalue() + err.getvalue()

    return _read_report(show(as_json=False), show(as_json=True), command)


def _read_report(in_text: str, as_json: str, command: str) -> ShownError:
    lines, error = _read_lines(in_text), _find_document(as_json)["error"]
    reason = Reason(error["reason"])
    number = plan_error(reason)
    code = f"{number.code} {number.kind}" if command in PLAN_COMMANDS else reason.value
    assert command not in PLAN_COMMANDS or (error["code"], error["type"]) == number
    assert (lines["error"], lines.get("where", ""), lines["code"]) == (error["what"], error["where"], code)
    if "--json" not in lines["next"]:  # else it repeats the command
        assert lines["next"] == error["next_step"].replace(" --json", "")
    return ShownError(reason, code, lines["error"], lines["next"], in_text + as_json)


def _find_document(text: str) -> Any:
    (line,) = [line for line in text.splitlines() if line.startswith('{"error": ')]
    return json.loads(line)


def _read_lines(text: str) -> dict[str, str]:
    first, labelled = re.compile(r"(refused|failed|waiting): (.*)"), re.compile(r"  (where|code|next): +(.*)")
    found: dict[str, str] = {}
    for line in text.splitlines():
        if started := first.fullmatch(line):
            found["error"] = started[2]
        elif found and (label := labelled.fullmatch(line)):
            found.setdefault(label[1], label[2])
    assert {"error", "code", "next"} <= set(found), text
    return found


def _find_reason(code: str) -> Reason:
    """The reason of an error of a plan that has only a number. No other reason has this number."""
    (reason,) = [reason for reason, number in PLAN_CODES.items() if f"{number.code} {number.kind}" == code]
    return reason


def _read_problem(problem: Any) -> tuple[str, str, str]:
    """The code, the cause and the next step of an error of a plan."""
    message = re.fullmatch(r"(.+?)(?: \(at [^)]+\))?\. (\S.*)", problem["message"])
    assert message is not None, problem
    return f"{problem['error_code']} {problem['error_type']}", message[1], message[2]


ACTIONS: Final = frozenset(
    {
        *("add", "answer", "approve", "ask", "call", "cancel", "change", "check", "choose", "close", "compare"),
        *("compute", "correct", "create", "deny", "do", "find", "fix", "flatten", "free", "give", "have", "keep"),
        *("leave", "look"),
        *("make", "move", "name", "navigate", "omit", "open", "preview", "propose", "raise", "read", "remove"),
        *("request", "restore", "restrict", "run", "save", "select", "send", "set", "shorten", "simplify", "split"),
        *("start", "stay", "stop", "take", "try", "use", "wait", "write"),
    }
)
"""What a user does, as the first word of a clause."""


def names_an_action(text: str) -> bool:
    """Whether the text tells the user to do something, or gives a command."""
    first_words = {words[0].lower() for words in map(str.split, re.split(r"[.,;:] ?", text)) if words}
    return bool(first_words & ACTIONS) or "remit " in text


def is_sentence(text: str) -> bool:
    """Whether the text is a sentence, a command, or a sentence that ends with one."""
    return re.fullmatch(r"[A-Z`].*\.|(?:[A-Z`].*: )?(?:remit|chmod|postgresql:|--allow-)\S* ?.*", text) is not None

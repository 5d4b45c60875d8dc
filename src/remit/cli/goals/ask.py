"""`remit ask`."""

import contextlib
import sys
import termios
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from remit.cli.common.bidi import display_text
from remit.cli.common.completion import complete_goal
from remit.cli.common.identity import GoalRequester, resolve_goal_requester
from remit.cli.common.options import json_option, show_json, workspace_option
from remit.cli.common.signals import interrupting
from remit.cli.common.suggest import LocationOptions
from remit.cli.common.tenants import choose_tenant, tenant_of_goal, tenant_option
from remit.cli.goals.render import REFUSED, Cycle, render_cycle
from remit.contracts.services.common import WaitingFor
from remit.core.errors import Reason, RefusedError
from remit.goals.confirmation.language_tags import read_tag
from remit.goals.service import Reply
from remit.goals.status import GoalStatus, read_goal_status
from remit.identity.person import person_at_terminal
from remit.parsing import Bounds, read_bounded
from remit.services.goals.answers import User
from remit.services.goals.hints import build_hints, explain_clarification, find_clarified_field
from remit.services.goals.states import ENDED
from remit.workspace.workspace import Workspace

MAX_INPUT: Final = Bounds(max_bytes=64 << 10)
STDIN: Final = ("-",)
DEFAULT_LANGUAGE: Final = "en"


@click.command()
@click.argument("words", nargs=-1, metavar="[TEXT]")
@click.option("--user", "user_id", help="Who asks, as `tenants` in remit.yaml lists him.")
@tenant_option
@click.option("--lang", "language", metavar="TAG", help="The language of TEXT and of the answer, such as de or pt-BR.")
@click.option("--confirm", "answer", metavar="ANSWER", help="The user's answer to the question whether to go on.")
@click.option(
    "--reply",
    "reply_to",
    metavar="CORRELATION",
    shell_complete=complete_goal,
    help="TEXT answers what that goal asked back.",
)
@click.option("--correlation", "correlation_id", metavar="ID", help="An id of your own for this goal.")
@click.option(
    "--continue", "continued", metavar="CORRELATION", shell_complete=complete_goal, help="Go on with a goal that waits."
)
@click.option(
    "--undo",
    "undone",
    metavar="CORRELATION",
    shell_complete=complete_goal,
    help="Take back what a goal did, by a goal of its own.",
)
@workspace_option
@json_option
@click.pass_context
def ask(  # noqa: PLR0913, PLR0917 - one for each option
    ctx: click.Context,
    words: tuple[str, ...],
    user_id: str | None,
    tenant_id: str | None,
    language: str | None,
    answer: str | None,
    reply_to: str | None,
    correlation_id: str | None,
    continued: str | None,
    undone: str | None,
    directory: Path,
    as_json: bool,
) -> None:
    """Have something done by asking for it: one goal, decided, confirmed and carried out once.

    TEXT says what is wanted, in the user's own words; - reads it from standard input, and after -- it may begin with a
    dash. What changes something is asked about first: in a terminal the answer is read there, else --confirm gives it,
    now or later. Without --lang the language is the one of LC_ALL, LC_MESSAGES or LANG, else en. A goal that
    is gone on with, replied to or taken back has its user and language already. Exit code 0 when it was done; 1 when it
    was tried and failed; 2 when it was refused and nothing was done; 3 while it waits for a person: for an answer, for
    somebody's approval, or for what it asked back.
    """
    _require_one_request(ctx, words, continued, undone, reply_to, correlation_id, language)
    with Workspace.open(directory) as workspace:
        if answer is not None:
            person_at_terminal(workspace.environ)  # an agent may ask, and cannot say the user's yes
        requester = resolve_goal_requester(workspace, user_id, tenant_id)
        user_id, tenant_id = requester.user, requester.tenant
        earlier = next((each for each in (continued, undone, reply_to) if each is not None), None)
        tenant = tenant_of_goal(workspace, tenant_id, earlier) if earlier else choose_tenant(workspace, tenant_id)
        can_ask = not as_json and words != STDIN and sys.stdin.isatty() and sys.stderr.isatty()
        # With several tenants two of them may have a goal of the same id: then a command needs the name as well.
        named = tenant if tenant_id is not None or len(workspace.config.tenants) > 1 else None
        location = LocationOptions(directory, named)
        dialogue = GoalDialogue(workspace, requester, tenant, location, answer, can_ask=can_ask, prints=not as_json)
        with interrupting():
            if continued is not None:
                reply = dialogue.resume(continued, user_id)
            else:
                speaker = dialogue.resolve_user(earlier, user_id, language)
                dialogue.note_earlier_end(correlation_id)
                if undone is not None:
                    reply = requester.undo(undone, *speaker, correlation_id=correlation_id)
                else:
                    reply = requester.ask(_read(words), *speaker, correlation_id=correlation_id, reply_to=reply_to)
                    if reply_to is not None:
                        dialogue.answered_field = find_clarified_field(workspace, tenant, speaker[0].user, reply_to)
            cycle = dialogue.run(reply)
        hints = build_hints(workspace, cycle.reply, dialogue.answered_field)
    if as_json:
        show_json(cycle.tree(hints))
    else:
        for line in render_cycle(cycle, hints):
            click.echo(line, err=cycle.exit_code == REFUSED)
    ctx.exit(cycle.exit_code)


@dataclass
class GoalDialogue:
    """One user and one thread: answers what can be answered here, and leaves the rest for later."""

    workspace: Workspace
    requester: GoalRequester
    tenant: str
    location: LocationOptions
    answer: str | None
    can_ask: bool
    prints: bool
    answered_field: str | None = None
    """The field whose question the words answer."""
    ended: str | None = None
    """The event by which the goal had ended before this command."""

    def resolve_user(self, earlier: str | None, user_id: str | None, language: str | None) -> tuple[User, str]:
        """Who speaks, and in which language: as an earlier goal says, if there is one."""
        found = self._read_status(earlier) if earlier is not None else None
        user = user_id if user_id is not None else found.user_id if found else None
        if user is None:
            raise click.UsageError("Say who asks: --user.")
        tag = language or (found.language_tag if found else read_locale_language(self.workspace.environ))
        return User(user, self.tenant), tag

    def resume(self, correlation_id: str, user_id: str | None) -> Reply:
        found = self._read_status(correlation_id)
        user = user_id if user_id is not None else found.user_id if found else ""
        self.note_earlier_end(correlation_id)
        is_awaiting = found is not None and found.event == "CONFIRMATION_REQUESTED"
        return self.requester.answer(
            correlation_id, self._pop_answer() if is_awaiting else None, User(user, self.tenant)
        )

    def note_earlier_end(self, correlation_id: str | None) -> None:
        """What came of it once is told again, and as such."""
        found = self._read_status(correlation_id) if correlation_id is not None else None
        self.ended = found.event_id if found is not None and found.event in ENDED else None

    def run(self, reply: Reply) -> Cycle:
        """As long as there is somebody to ask. The core counts unclear answers, and the Finder its questions."""
        while True:
            now = self._read_status(reply.goal.correlation_id)
            # Of an id that stands for another goal, the last event is none of ours.
            before = now is not None and self.ended == now.event_id == reply.outcome.audit_event_id
            cycle = Cycle(reply, now, self.location, before)
            answer = self._read_answer(cycle, cycle.waiting_for)
            if answer is None:
                return cycle
            goal = reply.goal
            speaker = User(goal.user_id, goal.tenant_id)
            if cycle.waiting_for == "confirmation":
                reply = self.requester.answer(goal.correlation_id, answer, speaker)
            else:
                self.answered_field = getattr(goal.sim_finder_packet, "field", None)
                reply = self.requester.ask(answer, speaker, goal.language_tag, reply_to=goal.correlation_id)

    def _read_answer(self, cycle: Cycle, waiting_for: WaitingFor | None) -> str | None:
        """What a person says to it: as it was given, or typed now. None: nobody says anything."""
        prompt = display_text(cycle.reply.outcome.user_visible_text)
        if waiting_for == "confirmation" and self.answer is not None:
            if self.prints:
                click.echo(prompt, err=True)
            return self._pop_answer()
        if waiting_for not in {"confirmation", "clarification"} or not self.can_ask:
            return None
        if waiting_for == "confirmation":
            person_at_terminal(self.workspace.environ)
        elif why := explain_clarification(self.workspace, cycle.reply, self.answered_field):
            click.echo(display_text(f"{why}."), err=True)
        click.echo(prompt, err=True)
        return _prompt_answer()

    def _pop_answer(self) -> str | None:
        """Given once, it answers one question."""
        answer, self.answer = self.answer, None
        return answer

    def _read_status(self, correlation_id: str) -> GoalStatus | None:
        with self.workspace.store.reading() as connection:
            return read_goal_status(connection, lambda: self.workspace.keyring, self.tenant, correlation_id)


def read_locale_language(environ: Mapping[str, str]) -> str:
    """Of the locale, by the first of its variables that is set; English where that names no language."""
    setting = next((value for name in ("LC_ALL", "LC_MESSAGES", "LANG") if (value := environ.get(name))), "")
    tag = setting.partition(".")[0].partition("@")[0].replace("_", "-")
    return tag if read_tag(tag) is not None else DEFAULT_LANGUAGE


def _prompt_answer() -> str | None:
    """What was typed before the question was there is no answer to it; Ctrl-C and the end of input are none either."""
    with contextlib.suppress(termios.error, OSError, ValueError):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    while True:
        try:
            answer = click.prompt("Your answer", default="", show_default=False, err=True)
        except click.Abort:
            click.echo(err=True)
            return None
        if answer.strip():
            return str(answer).encode("utf-8", "replace").decode()


def _read(words: tuple[str, ...]) -> str:
    if words != STDIN:
        return " ".join(words)
    raw = read_bounded(sys.stdin.buffer, MAX_INPUT, source="standard input")
    try:
        return raw.decode("utf-8").strip()
    except UnicodeDecodeError:
        raise RefusedError(
            Reason.MALFORMED, "this is not UTF-8", where="standard input", next_step="Send it as UTF-8."
        ) from None


def _require_one_request(
    ctx: click.Context,
    words: tuple[str, ...],
    continued: str | None,
    undone: str | None,
    reply_to: str | None,
    correlation_id: str | None,
    language: str | None,
) -> None:
    requests = [bool(words), continued is not None, undone is not None]
    if sum(requests) != 1:
        raise click.UsageError("Say what is wanted (TEXT), or --continue, or --undo: one of them.", ctx)
    if reply_to is not None and not words:
        raise click.UsageError("--reply needs the TEXT that answers.", ctx)
    if continued is not None and (correlation_id is not None or language is not None):
        raise click.UsageError("A goal that is gone on with has its id and its language already.", ctx)

"""`remit ask`: decides a request in plain words, confirms it with the user, and carries it out once."""

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
from remit.cli.common.options import json_option, show_json, workspace_option
from remit.cli.common.signals import interrupting
from remit.cli.common.suggest import LocationOptions
from remit.cli.common.tenants import choose_tenant, tenant_of_goal, tenant_option
from remit.cli.goals.render import REFUSED, Cycle, render_cycle, render_text
from remit.cli.goals.render_steps import render_goal_preview, render_steps
from remit.cli.goals.requester import GoalRequester, resolve_goal_requester
from remit.contracts.goals.goal import DEFAULT_LANGUAGE
from remit.contracts.services.common import WaitingFor
from remit.contracts.services.goal_preview import GoalPreview
from remit.core.errors import Reason, RefusedError
from remit.core.text import printable
from remit.goals.composite.layout import is_undo
from remit.goals.confirmation.language_tags import read_tag
from remit.goals.service import Reply
from remit.goals.status import GoalStatus, read_goal_status
from remit.identity.person import person_at_terminal
from remit.parsing import Bounds, read_bounded
from remit.services.goals.answers import User
from remit.services.goals.hints import explain_clarification, find_clarified_field
from remit.services.goals.states import ENDED
from remit.workspace.workspace import Workspace

MAX_INPUT: Final = Bounds(max_bytes=64 << 10)
STDIN: Final = ("-",)


@click.command()
@click.argument("words", nargs=-1, metavar="[TEXT]")
@click.option("--user", "user_id", help="The user who asks, as listed under `tenants` in remit.yaml.")
@tenant_option
@click.option("--lang", "language", metavar="TAG", help="The language of TEXT and of the answer, such as de or pt-BR.")
@click.option("--confirm", "answer", metavar="ANSWER", help="The user's answer to the confirmation question.")
@click.option(
    "--step", metavar="STEP", help="The step that --confirm is for, if the goal has several steps: its id or its name."
)
@click.option(
    "--reply",
    "reply_to",
    metavar="CORRELATION",
    shell_complete=complete_goal,
    help="TEXT answers the question of this goal.",
)
@click.option("--correlation", "correlation_id", metavar="ID", help="Your own id for the new goal.")
@click.option(
    "--continue", "continued", metavar="CORRELATION", shell_complete=complete_goal, help="Continue a goal that waits."
)
@click.option(
    "--undo",
    "undone",
    metavar="CORRELATION",
    shell_complete=complete_goal,
    help="Roll back a goal, by a new goal.",
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
    step: str | None,
    reply_to: str | None,
    correlation_id: str | None,
    continued: str | None,
    undone: str | None,
    directory: Path,
    as_json: bool,
) -> None:
    """Do what a user asks for in plain words, after confirmation.

    TEXT is the request in the user's own words. With -, the command reads it from standard input. After --, TEXT may
    begin with a dash. The user must confirm a goal that changes something. In a terminal the command reads the answer;
    otherwise --confirm gives it, now or later.

    Without --lang, the language is that of LC_ALL, LC_MESSAGES or LANG, else en. With --continue, --reply and --undo,
    the user and the language are by default those of the earlier goal.

    A goal with several steps asks before each step that changes something. An answer of --confirm is for the step that
    --step names, and for no other.

    Exit code 0 if it was done, 1 if it was tried and failed, 2 if it was refused and nothing was done, and 3 while it
    waits: for a confirmation, for the approval of another person, or for the answer to its question.
    """
    _require_one_request(ctx, words, continued, undone, reply_to, correlation_id, language)
    if step is not None and answer is None:
        raise click.UsageError("--step needs --confirm, with the answer for this step.", ctx)
    with Workspace.open(directory) as workspace:
        if answer is not None:
            person_at_terminal(workspace.environ)  # an agent may ask, but cannot confirm for the user
        requester = resolve_goal_requester(workspace, user_id, tenant_id)
        user_id, tenant_id = requester.user, requester.tenant
        earlier = next((each for each in (continued, undone, reply_to) if each is not None), None)
        tenant = tenant_of_goal(workspace, tenant_id, earlier) if earlier else choose_tenant(workspace, tenant_id)
        can_ask = not as_json and words != STDIN and sys.stdin.isatty() and sys.stderr.isatty()
        # Two tenants may have a goal with the same id. With several tenants, suggested commands name the tenant.
        named = tenant if tenant_id is not None or len(workspace.config.tenants) > 1 else None
        location = LocationOptions(directory, named)
        dialogue = GoalDialogue(
            workspace, requester, tenant, location, answer, can_ask=can_ask, prints=not as_json, step=step
        )
        dialogue.is_undo_command = undone is not None
        with interrupting():
            if continued is not None:
                reply = dialogue.resume(continued, user_id)
            else:
                speaker = dialogue.resolve_user(earlier, user_id, language)
                dialogue.note_earlier_end(correlation_id)
                if undone is not None:
                    dialogue.require_no_own_id(undone, correlation_id)
                    reply = requester.undo(undone, *speaker, correlation_id=correlation_id)
                else:
                    reply = requester.ask(_read(words), *speaker, correlation_id=correlation_id, reply_to=reply_to)
                    if reply_to is not None:
                        dialogue.answered_field = find_clarified_field(workspace, tenant, speaker[0].user, reply_to)
            cycle = dialogue.run(reply)
        hints = requester.hints(cycle.reply, dialogue.answered_field)
        steps, preview = requester.steps(cycle.reply), dialogue.read_preview(cycle)
    if as_json:
        show_json(cycle.tree(hints, steps, preview))
    else:
        for line in render_cycle(cycle, hints, steps, preview):
            click.echo(line, err=cycle.exit_code == REFUSED)
    ctx.exit(cycle.exit_code)


@dataclass
class GoalDialogue:
    """A dialogue about the goal of one user. It answers the questions that it can, and leaves others for later."""

    workspace: Workspace
    requester: GoalRequester
    tenant: str
    location: LocationOptions
    answer: str | None
    can_ask: bool
    prints: bool
    answered_field: str | None = None
    """The field that the user's text answers."""
    ended: str | None = None
    """The id of the event that ended the goal before this command, if it had ended."""
    step: str | None = None
    """The step that `answer` is for: its id or its name."""
    is_undo_command: bool = False
    is_undoing: bool = False
    """Whether the question is, or was, whether a goal with several steps is rolled back."""

    def resolve_user(self, earlier: str | None, user_id: str | None, language: str | None) -> tuple[User, str]:
        """Return the user and the language. Without options, they are those of the earlier goal, if there is one."""
        found = self._read_status(earlier) if earlier is not None else None
        user = user_id if user_id is not None else found.user_id if found else None
        if user is None:
            raise click.UsageError("Name the user who asks, with --user.")
        tag = language or (found.language_tag if found else read_locale_language(self.workspace.environ))
        return User(user, self.tenant), tag

    def resume(self, correlation_id: str, user_id: str | None) -> Reply:
        found = self._read_status(correlation_id)
        user = user_id if user_id is not None else found.user_id if found else ""
        self.note_earlier_end(correlation_id)
        is_awaiting = found is not None and found.event == "CONFIRMATION_REQUESTED"
        step = found.waiting_step if found is not None else None
        if is_awaiting and self.answer is not None and step is not None:
            self._require_step(correlation_id, User(user, self.tenant), step)
        self.is_undoing = step is not None and is_undo(step)
        answer = self._pop_answer() if is_awaiting else None
        return self.requester.answer(correlation_id, answer, User(user, self.tenant), step if answer else None)

    def _require_step(self, correlation_id: str, user: User, waiting: str) -> None:
        """Refuse an answer that does not name the step which waits. It is never used for another one."""
        if self._names(waiting, self.workspace.goals.read_reply(correlation_id, user=user.user, tenant=user.tenant)):
            return
        what = "does not name the step that it is for" if self.step is None else "is for a step that does not wait"
        raise RefusedError(
            Reason.CONFIRMATION_MISSING,
            f"this goal has several steps, and the answer {what}; it was not used",
            where=f"goal {printable(correlation_id)}",
            next_step=f"Read the question without --confirm. The step that waits is: --step {waiting}",
        )

    def _names(self, waiting: str, reply: Reply) -> bool:
        """Tell whether --step names the step that waits, by its id or its name."""
        if self.step is None:
            return self.is_undo_command and is_undo(waiting)  # the command says for which question the answer is
        if self.step == waiting:
            return True
        situation = self.workspace.goals.read_situation(reply.goal)
        steps = situation.steps if situation is not None else ()
        return any((each.step_id, each.name) == (waiting, self.step) for each in steps)

    def require_no_own_id(self, undone: str, correlation_id: str | None) -> None:
        found = self._read_status(undone) if correlation_id is not None else None
        if found is not None and found.has_several_steps:
            raise click.UsageError("A goal with several steps is rolled back under its own id. Omit --correlation.")

    def note_earlier_end(self, correlation_id: str | None) -> None:
        """Remember whether the goal had already ended, because the output then says `done before`."""
        found = self._read_status(correlation_id) if correlation_id is not None else None
        self.ended = found.event_id if found is not None and found.event in ENDED else None

    def run(self, reply: Reply) -> Cycle:
        """Continue the goal as long as it asks and an answer is available.

        The core limits unclear answers, and the Finder limits its questions.
        """
        while True:
            now = self._read_status(reply.goal.correlation_id)
            before = now is not None and self.ended == now.event_id and _is_about(now, reply)
            step = now.waiting_step if now is not None else None
            self.is_undoing = self.is_undoing or (step is not None and is_undo(step))
            cycle = Cycle(reply, now, self.location, before, self.is_undoing)
            answer = self._read_answer(cycle, cycle.waiting_for)
            if answer is None:
                return cycle
            goal = reply.goal
            speaker = User(goal.user_id, goal.tenant_id)
            if cycle.waiting_for == "confirmation":
                reply = self.requester.answer(goal.correlation_id, answer, speaker, step)
            else:
                self.answered_field = getattr(goal.sim_finder_packet, "field", None)
                reply = self.requester.ask(answer, speaker, goal.language_tag, reply_to=goal.correlation_id)

    def _read_answer(self, cycle: Cycle, waiting_for: WaitingFor | None) -> str | None:
        """Return the answer of the user, from --confirm or typed now. None if there is no answer."""
        prompt = render_text(cycle.reply.outcome)
        waiting = cycle.status.waiting_step if cycle.status is not None else None
        if waiting_for == "confirmation" and waiting is not None and not self._names(waiting, cycle.reply):
            self._discard_answer()
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
        steps = self.requester.steps(cycle.reply) if waiting is not None else None
        preview = self.read_preview(cycle)
        for line in (
            *(render_steps(steps) if steps is not None else ()),
            *(render_goal_preview(preview) if preview is not None else ()),
        ):
            click.echo(line, err=True)
        click.echo(prompt, err=True)
        return _prompt_answer()

    def read_preview(self, cycle: Cycle) -> GoalPreview | None:
        """Return what the action would do, if the goal waits for a decision of a person."""
        if cycle.status is None or cycle.waiting_for not in {"confirmation", "approval"}:
            return None
        return self.requester.preview(cycle.reply, cycle.status.step_id)

    def _discard_answer(self) -> None:
        """Discard the answer of --confirm, which is for no step that waits. It is not used for another one."""
        if self.prints and self.answer is not None:
            named = "for a step that does not wait" if self.step is not None else "for no step; name it with --step"
            click.echo(f"Note: the answer of --confirm is {named}. It was not used.", err=True)
        self.answer = None

    def _pop_answer(self) -> str | None:
        """Return the answer of --confirm, and forget it, because it answers one question only."""
        answer, self.answer = self.answer, None
        return answer

    def _read_status(self, correlation_id: str) -> GoalStatus | None:
        with self.workspace.store.reading() as connection:
            return read_goal_status(connection, lambda: self.workspace.keyring, self.tenant, correlation_id)


def _is_about(now: GoalStatus, reply: Reply) -> bool:
    """Tell whether a reply is about this goal. If the id belongs to another goal, the reply has an event of its own."""
    outcome = reply.outcome
    return now.event_id == outcome.audit_event_id or (now.has_several_steps and outcome.step_id is not None)


def read_locale_language(environ: Mapping[str, str]) -> str:
    """Return the language of the first locale variable that is set, or English if it names no language."""
    setting = next((value for name in ("LC_ALL", "LC_MESSAGES", "LANG") if (value := environ.get(name))), "")
    tag = setting.partition(".")[0].partition("@")[0].replace("_", "-")
    return tag if read_tag(tag) is not None else DEFAULT_LANGUAGE


def _prompt_answer() -> str | None:
    """Read an answer from the terminal. Return None after Ctrl-C or the end of input.

    Text that was typed before the question was shown is not an answer, and is discarded.
    """
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
            Reason.MALFORMED, "the text is not valid UTF-8", where="standard input", next_step="Send it as UTF-8."
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
        raise click.UsageError("Give exactly one of TEXT, --continue and --undo.", ctx)
    if reply_to is not None and not words:
        raise click.UsageError("--reply needs TEXT, which answers the question.", ctx)
    if continued is not None and (correlation_id is not None or language is not None):
        raise click.UsageError(
            "--continue cannot be used with --correlation or --lang: the goal has its id and its language already.", ctx
        )

"""The command line: thin, lazy, and the same road as everything else.

`remit --help` imports click and nothing heavier: the table below knows every command's name and one-line help, and a
command's module is loaded only when it runs. Exit codes: 0 done, 1 ran and failed, 2 refused with nothing touched, 3
waiting for a person.
"""

import gc
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, Final

import click

from remit import __version__
from remit.cli.common.main_wrapper import renaming_broken_pipes, require_unicode_text, run_command, suggest
from remit.cli.common.permissions import require_permissions

# Whatever else is installed must not be loaded into a process that holds signing keys; and it is quicker.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "init": ("remit.cli.init:init", "Make a workspace: remit.yaml here, keys and ledger in the state directory."),
    "demo": ("remit.cli.demo.demo:demo", "Show the whole road on a throw-away workspace."),
    "doctor": ("remit.cli.doctor:doctor", "Check this machine and workspace, and say what to do."),
    "task": ("remit.cli.task:task", "Lease, run and take back one task."),
    "preview": ("remit.cli.plans.commands:preview", "Show exactly what a plan would change; change nothing."),
    "approve": ("remit.cli.plans.commands:approve", "Sign an envelope: approve a plan for the files as they are now."),
    "propose": ("remit.cli.plans.propose:propose", "Propose a plan, and have a person look at it and answer."),
    "apply": ("remit.cli.plans.commands:apply", "Carry out an approved plan, once, and report it."),
    "run": ("remit.cli.plans.commands:run", "Preview, ask, approve and apply a plan in one go."),
    "runs": ("remit.cli.plans.runs:runs", "List the plans that ran and those that were taken back, newest first."),
    "rollback": ("remit.cli.plans.rollback:rollback", "Take back what a plan did, whole or in part."),
    "cancel": (
        "remit.cli.plans.rollback:cancel",
        "Stop a plan that is running, and have it taken back; or make an unused envelope void.",
    ),
    "prune": (
        "remit.cli.plans.rollback:prune",
        "Remove backups that nobody can need any more: of plans taken back, or past their retention.",
    ),
    "token": ("remit.cli.token:token", "Issue, revoke and list capability tokens."),
    "people": ("remit.cli.people:people", "Invite people to the console, see who there is, and remove them."),
    "approvals": (
        "remit.cli.approvals.commands:approvals",
        "Answer what waits for a person: requests of the browser, calls of functions, goals, and proposed plans.",
    ),
    "browse": ("remit.cli.browse:browse", "Do one thing in the browser, under a capability token."),
    "catalogue": (
        "remit.cli.goals.catalogue:catalogue",
        "Check, promote and retire simulations: what users can have done by asking for it.",
    ),
    "slo": (
        "remit.cli.goals.slo:slo",
        "Measure the service levels of the goal door under load, and gate a release on them.",
    ),
    "ask": (
        "remit.cli.goals.ask:ask",
        "Have something done by asking for it: one goal, decided, confirmed and carried out once.",
    ),
    "intake": ("remit.cli.goals.intake:intake", "List and export what was asked for and nothing here can do yet."),
    "mcp": (
        "remit.cli.mcp:mcp",
        "Serve an MCP client: tools to propose, apply and undo plans, run tasks, browse, and ask.",
    ),
    "serve": ("remit.cli.serve:serve", "Serve this workspace: HTTP API, console, and MCP over HTTP."),
    "recover": ("remit.cli.recover:recover", "Finish or clear away what a crash left, and record what came of it."),
    "ledger": ("remit.cli.ledger:ledger", "Verify, show, trace, replay, rebuild and export the record."),
    "clock": ("remit.cli.clock:clock", "Compare the clock with the ledger, and accept it after it was ahead."),
    "keys": ("remit.cli.keys:keys", "List, export, rotate and revoke keys."),
    "migrate": ("remit.cli.migrate:migrate", "Bring the store's tables up to date."),
    "schema": ("remit.cli.schema:schema", "List the contracts, or print the JSON Schema of one."),
    "completion": ("remit.cli.completion:completion", "Print the shell completion script."),
}


class LazyGroup(click.Group):
    """Knows its commands by name; imports one when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        require_unicode_text(command)
        require_permissions(command, cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as problem:  # click looks for likely names only among commands that are loaded
            guess = suggest(args[0], COMMANDS)
            if not guess:
                raise
            raise click.UsageError(problem.message + guess, ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        with renaming_broken_pipes():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with renaming_broken_pipes():
            return super().invoke(ctx)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: FBT002 - click's own signature
        **extra: Any,
    ) -> Any:
        """As click's, with every way to end in one place: `remit.cli.common.main_wrapper`."""
        run = super().main
        if not standalone_mode:
            return run(args, prog_name, complete_var, standalone_mode=False, **extra)
        # Most of what a command makes lives until it ends: looking through it ten times would be a fifth of its time.
        gc.set_threshold(100_000)
        arguments = sys.argv[1:] if args is None else list(args)
        extra.setdefault("obj", {"arguments": arguments})  # for messages that repeat the command
        return sys.exit(
            run_command(lambda: run(arguments, prog_name, complete_var, standalone_mode=False, **extra), arguments)
        )


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with `remit demo`, then `remit init` in a folder of your own.",
)
@click.version_option(__version__, prog_name="remit", message="%(prog)s %(version)s")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Hands for AI agents that stay within their remit.

    An agent proposes; nothing happens without signed authority, a decision and, where it matters, a person's yes. What
    happens is recorded in a signed ledger that anybody with the public key can check.
    """
    if os.environ.get("REMIT_FAULT") and ctx.invoked_subcommand != "doctor":  # which lists it among its findings
        importlib.import_module("remit.cli.common.errors").require_valid_fault(os.environ["REMIT_FAULT"])
    logs = importlib.import_module("remit.observability.logs")
    if level := os.environ.get("REMIT_LOG"):
        logs.configure_logging(sys.stderr, logs.parse_level(level))
    else:
        logs.configure_warnings(sys.stderr)
    if os.environ.get("NO_COLOR"):
        ctx.color = False
    elif os.environ.get("FORCE_COLOR"):
        ctx.color = True


if __name__ == "__main__":
    sys.exit(main())

"""The command line: the `remit` program and the table of its commands.

`remit --help` imports click and nothing heavier. The table below groups the commands by task. It has the name and the
one-line help of each command, and the module of a command is loaded only when the command runs. The exit code is 0 for
done, 1 for ran and failed, 2 for refused with nothing touched, and 3 for waiting for a person.
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
from remit.cli.common.running_command import follow

# Plugins of other packages must not be loaded into a process that holds signing keys. It is also quicker.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

COMMAND_GROUPS: Final[dict[str, dict[str, tuple[str, str]]]] = {
    "Start": {
        "init": ("remit.cli.init:init", "Create a workspace: remit.yaml, keys and ledger."),
        "demo": ("remit.cli.demo.demo:demo", "Run an end-to-end demo in a temporary workspace."),
        "doctor": ("remit.cli.doctor:doctor", "Check this machine and workspace, and say what to do."),
    },
    "Change files and data with a plan": {
        "preview": ("remit.cli.plans.commands:preview", "Show exactly what a plan would change, and change nothing."),
        "propose": ("remit.cli.plans.propose:propose", "Propose a plan for a person to approve."),
        "apply": ("remit.cli.plans.commands:apply", "Apply an approved plan once, and report the outcome."),
        "run": ("remit.cli.plans.commands:run", "Preview, approve and apply a plan in one command."),
        "runs": ("remit.cli.plans.runs:runs", "List the plans that ran and their rollbacks, newest first."),
        "rollback": ("remit.cli.plans.rollback:rollback", "Roll back a plan, fully or partially."),
        "cancel": (
            "remit.cli.plans.rollback:cancel",
            "Cancel a running plan, void an unused envelope, or withdraw a proposal.",
        ),
    },
    "Approve": {
        "approve": ("remit.cli.plans.commands:approve", "Approve a plan for the files as they are now."),
        "approvals": ("remit.cli.approvals.commands:approvals", "List pending requests, and approve or deny them."),
    },
    "Act without a plan": {
        "ask": ("remit.cli.goals.ask:ask", "Do what a user asks for in plain words, after confirmation."),
        "browse": ("remit.cli.browse:browse", "Run one browser action under a capability token."),
        "task": ("remit.cli.task:task", "Sign a lease for one task, run the task, and undo it."),
    },
    "Serve agents and people": {
        "serve": ("remit.cli.serve:serve", "Serve this workspace: HTTP API, console, and MCP over HTTP."),
        "mcp": ("remit.cli.mcp:mcp", "Serve MCP clients: tools for plans, tasks, browser and goals."),
    },
    "Check the ledger, and recover": {
        "ledger": ("remit.cli.ledger:ledger", "Verify, show, trace, replay, rebuild and export the ledger."),
        "recover": ("remit.cli.recover:recover", "Finish or undo what a crash interrupted, and record the outcome."),
        "clock": ("remit.cli.clock:clock", "Compare the clock with the ledger, and accept it after it was ahead."),
    },
    "Administer": {
        "token": ("remit.cli.token:token", "Issue, revoke and list capability tokens."),
        "people": ("remit.cli.people:people", "Invite people to the console, list them, and remove them."),
        "keys": ("remit.cli.keys:keys", "List, export, rotate and revoke keys."),
        "catalogue": (
            "remit.cli.goals.catalogue:catalogue",
            "Check, promote and retire the simulations that users ask for.",
        ),
        "intake": (
            "remit.cli.goals.intake:intake",
            "List and export what users asked for and no simulation covers yet.",
        ),
        "slo": ("remit.cli.goals.slo:slo", "Measure how fast and reliably goals run, and gate a release."),
        "prune": (
            "remit.cli.plans.rollback:prune",
            "Delete backups of rolled-back plans, expired backups, and kept files of previews.",
        ),
        "migrate": ("remit.cli.migrate:migrate", "Bring the store's tables up to date."),
        "schema": ("remit.cli.schema:schema", "List the contracts, or print the JSON Schema of one."),
        "completion": ("remit.cli.completion:completion", "Print the shell completion script."),
    },
}
"""The commands under the headings of `remit --help`. Each has its module and function, and its help in one line."""
COMMANDS: Final[dict[str, tuple[str, str]]] = {
    name: row for commands in COMMAND_GROUPS.values() for name, row in commands.items()
}


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports a command only when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        require_unicode_text(command)
        follow(command, cmd_name)
        require_permissions(command, cmd_name)
        importlib.import_module("remit.cli.common.examples").add_examples(command, cmd_name)
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
        """Write the commands under their headings, all with one width of the first column."""
        width = max(map(len, COMMANDS))
        for heading, commands in COMMAND_GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), text) for name, (_, text) in commands.items()])

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
        """Run as click does. `remit.cli.common.main_wrapper` turns every end of a command into an exit code."""
        run = super().main
        if not standalone_mode:
            return run(args, prog_name, complete_var, standalone_mode=False, **extra)
        # Most objects live until the command ends. Ten garbage collections would take a fifth of its time.
        gc.set_threshold(100_000)
        arguments = sys.argv[1:] if args is None else list(args)
        extra.setdefault("obj", {"arguments": arguments})  # for messages that repeat the command
        return sys.exit(
            run_command(lambda: run(arguments, prog_name, complete_var, standalone_mode=False, **extra), arguments)
        )


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="\b\n"
    "Examples:\n"
    "  remit demo                see everything once, in a temporary workspace\n"
    "  remit init                create a workspace in this folder\n"
    "  remit preview plan.json   see what a plan would change\n"
    "  remit run plan.json       see it, approve it and apply it\n"
    "  remit rollback last       roll back the newest run\n"
    "  remit approvals           list what agents ask for\n"
    "  remit ledger verify       check that the ledger is complete and unchanged\n"
    "\n"
    "`remit COMMAND --help` shows the options and examples of a command.",
)
@click.version_option(__version__, prog_name="remit", message="%(prog)s %(version)s")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Remit runs actions for AI agents, but only the actions that they are authorised to take.

    An agent proposes an action. Remit runs it only with signed authority, after a decision by policy and, where it
    matters, a person's approval. A signed ledger records every action. The audit public key verifies it.
    """
    if os.environ.get("REMIT_FAULT") and ctx.invoked_subcommand != "doctor":  # which reports it among its findings
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

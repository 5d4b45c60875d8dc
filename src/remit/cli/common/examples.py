"""Examples of the commands that are used most. The help of a command ends with its examples."""

from typing import Final

import click

EXAMPLES: Final[dict[str, tuple[str, ...]]] = {
    "init": ("remit init", "remit init my-project"),
    "doctor": ("remit doctor", "remit doctor --json"),
    "preview": (
        "remit preview plan.json",
        "remit preview plan.json --full",
        "remit preview plan.json --digest-file plan.digest",
        "cat plan.json | remit preview - --json",
    ),
    "propose": (
        'remit propose plan.json --note "Raise the retry limit"',
        "remit propose plan.json --token agent.token",
    ),
    "approve": (
        "remit approve plan.json -o envelope.json",
        "remit approve plan.json --allow-protected .env -o envelope.json",
        'remit approve plan.json --digest "$(cat plan.digest)" -o envelope.json',
    ),
    "apply": ("remit apply envelope.json", "remit apply --proposal ID"),
    "run": ("remit run plan.json", "remit run plan.json --yes --json"),
    "runs": ("remit runs", "remit runs --limit 100"),
    "rollback": (
        "remit rollback last",
        "remit rollback ID --checkpoint CHECKPOINT",
        "remit rollback last --force",
    ),
    "cancel": ("remit cancel ID",),
    "prune": ("remit prune --dry-run", "remit prune"),
    "approvals": ("remit approvals", "remit approvals --wait"),
    "approvals list": ("remit approvals list --all", "remit approvals list --plans --json"),
    "approvals show": ("remit approvals show ID --full",),
    "approvals approve": ("remit approvals approve ID", "remit approvals approve ID --allow-protected .env"),
    "approvals deny": ('remit approvals deny ID --reason "This file belongs to another team"',),
    "ask": (
        'remit ask "archive the note one" --user mia',
        "remit ask --continue CORRELATION --confirm yes",
        "remit ask --undo CORRELATION",
    ),
    "browse": ("remit browse action.json --token agent.token", "remit browse action.json --token agent.token --wait"),
    "task lease": ("remit task lease task.json -o lease.json",),
    "task run": ("remit task run task.json --lease lease.json > result.json",),
    "task restore": ("remit task restore result.json",),
    "serve": ("remit serve", "remit serve --port 8080 --open"),
    "mcp": ("remit mcp --token-file agent.token", "remit mcp --http --port 7342"),
    "ledger verify": (
        "remit ledger verify",
        "remit ledger verify evidence.json --public-key audit.pem --head head.json",
    ),
    "ledger show": ("remit ledger show", "remit ledger show --limit 100 --json"),
    "ledger trace": ("remit ledger trace CORRELATION",),
    "ledger replay": ("remit ledger replay CORRELATION", "remit ledger replay --all --json"),
    "ledger export": ("remit ledger export -o evidence.json",),
    "ledger head": ("remit ledger head -o head.json",),
    "recover": ("remit recover", "remit recover --dead ID"),
    "catalogue list": ("remit catalogue list", "remit catalogue list --tenant acme --json"),
    "catalogue show": ("remit catalogue show ID",),
    "catalogue check": ("remit catalogue check",),
    "catalogue promote": (
        'remit catalogue promote ID --reason "Reviewed"',
        "remit catalogue promote ID --digest DIGEST",
    ),
    "catalogue retire": ('remit catalogue retire ID --reason "Replaced by another simulation"',),
    "intake": ("remit intake", "remit intake --json"),
    "intake list": ("remit intake list --tenant acme",),
    "intake export": ("remit intake export -o wanted.jsonl",),
    "slo": ("remit slo",),
    "slo run": ("remit slo run", "remit slo run --goals 1000 --callers 16 --json"),
    "slo gate": ("remit slo gate", "remit slo gate --waivers slo_waivers.yaml"),
    "token issue": ("remit token issue --sub agent-1 --cap plan.propose --cap plan.apply -o agent.token",),
    "people invite": ("remit people invite mia --role approver",),
    "completion": ('eval "$(remit completion bash)"', "remit completion fish > ~/.config/fish/completions/remit.fish"),
}
"""Complete commands by the path of their command. Words in capitals stand for ids."""


def add_examples(command: click.Command, path: str) -> None:
    """Add the examples to the help of a command and of the commands below it."""
    if path in EXAMPLES:
        # After \b, click keeps the lines as they are.
        command.epilog = "\n".join(("\b", "Examples:", *(f"  {line}" for line in EXAMPLES[path])))
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            add_examples(child, f"{path} {name}")

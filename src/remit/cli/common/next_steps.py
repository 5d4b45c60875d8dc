"""How to see what a command did that was interrupted, or whose output or disk failed. Each command is in one table."""

import os
from collections.abc import Mapping
from typing import Any, Final

from remit.cli.common.suggest import LocationOptions, joined
from remit.identity.person import AGENT_VARIABLES

_RUNS: Final = "First finish or undo what was left: remit recover{at}. Then see the runs: remit runs{at}"
_TASKS: Final = "First finish or undo what was left: remit recover{at}. Then see the outcome: remit ledger show{at}"
_KEYS: Final = "See the keys: remit keys list{at}"
_TOKENS: Final = "See the tokens: remit token list{at}"
_POLICY_KEYS: Final = "See the policy keys: remit token keys{at}"
_PEOPLE: Final = "See the people: remit people list{at}"
_REQUEST: Final = "See whether it was decided: remit approvals show{at} {id}"
_CATALOGUE: Final = "See the simulations: remit catalogue list{at}"

COMMITTING: Final[dict[str, str]] = {
    "init": "See whether the workspace is complete: remit doctor{at}",
    "task lease": "See whether a lease was signed: remit ledger show{at}",
    "task run": _TASKS,
    "task restore": _TASKS,
    "approve": "See whether an envelope was signed: remit ledger show{at}. To make it void: remit cancel{at} ID",
    "propose": "A person sees whether it was proposed: remit approvals list{at} --plans",
    "apply": _RUNS,
    "run": _RUNS,
    "rollback": _RUNS,
    "cancel": "See whether the plan ran: remit runs{at}. See whether the envelope is void: remit ledger show{at}",
    "prune": "See which backups are left: remit prune{at} --dry-run",
    "token issue": _TOKENS,
    "token revoke": _TOKENS,
    "token rotate-key": _POLICY_KEYS,
    "token trust": _POLICY_KEYS,
    "token distrust": _POLICY_KEYS,
    "people invite": _PEOPLE,
    "people remove": _PEOPLE,
    "approvals": "See what was decided: remit approvals list{at} --all",
    "approvals compute": "See whether a preview is stored: remit approvals show{at} {id}",
    "approvals approve": _REQUEST,
    "approvals deny": _REQUEST,
    "browse": "Run the same `remit browse` again. The action runs only once, and its result is stored.",
    "catalogue promote": _CATALOGUE,
    "catalogue retire": _CATALOGUE,
    "ask": "First finish what was left: remit recover{at}. Then see the newest entries: remit ledger show{at}",
    "recover": "Run it again: remit recover{at}",
    "ledger rebuild": "Run it again: remit ledger rebuild{at}",
    "clock accept": "See whether it was accepted: remit clock show{at}",
    "keys rotate": _KEYS,
    "keys revoke": _KEYS,
    "migrate": "Run it again: remit migrate{at}",
}
"""The commands that change something, and how to see what they did. {at} is the option -C, and {id} a request."""

READING: Final = frozenset(
    {
        "demo",
        "serve",
        "mcp",
        "doctor",
        "preview",
        "runs",
        "token list",
        "token keys",
        "people list",
        "approvals list",
        "approvals show",
        "catalogue list",
        "catalogue show",
        "catalogue check",
        "slo",
        "slo run",
        "slo gate",
        "intake",
        "intake list",
        "intake export",
        "ledger verify",
        "ledger show",
        "ledger trace",
        "ledger replay",
        "ledger export",
        "ledger head",
        "clock show",
        "keys list",
        "keys export",
        "schema",
        "completion",
    }
)
"""The commands that change nothing of a workspace. `demo` removes its own workspace. A server answers each request."""

_OF_AGENTS: Final = frozenset({"apply", "ask", "cancel", "rollback", "task run"})
"""Commands that agents run too. The commands that show what they did are for people."""


def how_to_see(path: str, parameters: Mapping[str, Any]) -> str:
    """Return the next step that shows what a command did, or an empty text for one that only reads."""
    if path not in COMMITTING:
        return ""
    where = LocationOptions(parameters["directory"]).directory_arguments if "directory" in parameters else ()
    at = f" {joined(where)}" if where else ""
    text = COMMITTING[path].replace("{at}", at).replace("{id}", joined([str(parameters.get("approval_id", "ID"))]))
    is_agent = path in _OF_AGENTS and any(os.environ.get(variable) for variable in AGENT_VARIABLES)
    return f"Ask a person to look. {text}" if is_agent else text

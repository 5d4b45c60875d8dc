"""The capabilities of tokens: actions in the browser, requests for plans, tasks and goals, and function calls."""

from typing import Annotated, Final, Literal, get_args

from pydantic import Field

from remit.contracts.browser.errors import Capability as BrowserCapability

ServiceCapability = Literal[
    "plan.propose", "plan.apply", "plan.undo", "plan.execute_preview", "task.run", "goal.ask", "plan.read"
]

BROWSER_CAPABILITIES: Final[tuple[BrowserCapability, ...]] = get_args(BrowserCapability)
SERVICE_CAPABILITIES: Final[tuple[ServiceCapability, ...]] = get_args(ServiceCapability)

CALL: Final = "call."
"""The prefix of the capability to call a governed function. The name of the function follows."""
CALL_NAME: Final = r"[a-z][a-z0-9_]{0,39}(\.[a-z][a-z0-9_]{0,39}){0,3}"

_KNOWN: Final = "|".join(name.replace(".", r"\.") for name in (*BROWSER_CAPABILITIES, *SERVICE_CAPABILITIES))

TokenCapability = Annotated[str, Field(max_length=200, pattern=rf"^({_KNOWN}|call\.{CALL_NAME})$")]


def is_browser(capability: str) -> bool:
    return capability in BROWSER_CAPABILITIES

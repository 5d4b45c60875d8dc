"""Tools and a prompt of the suite that ask the client for something, in the ways of both generations of MCP."""

from typing import Any, Final

from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.exceptions import MCPError
from mcp.types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CallToolResult,
    ClientCapabilities,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequest,
    InputRequiredResult,
    InputResponse,
    ListRootsRequest,
    ListRootsResult,
    MissingRequiredClientCapabilityErrorData,
    SamplingCapability,
    SamplingMessage,
    TextContent,
)

Outcome = CallToolResult | InputRequiredResult

DEFAULTS: Final[dict[str, Any]] = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
}
_OPTIONS: Final = ["option1", "option2", "option3"]
_TITLED: Final = [
    {"const": "value1", "title": "First Option"},
    {"const": "value2", "title": "Second Option"},
    {"const": "value3", "title": "Third Option"},
]
ENUMS: Final[dict[str, Any]] = {
    "untitledSingle": {"type": "string", "enum": _OPTIONS},
    "titledSingle": {"type": "string", "oneOf": _TITLED},
    "legacyEnum": {
        "type": "string",
        "enum": ["opt1", "opt2", "opt3"],
        "enumNames": ["Option One", "Option Two", "Option Three"],
    },
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": _OPTIONS}},
    "titledMulti": {"type": "array", "items": {"anyOf": _TITLED}},
}


def add_input(server: MCPServer[Any]) -> None:
    _add_older(server)
    _add_sampling(server)
    _add_single(server)
    _add_with_state(server)


def _add_older(server: MCPServer[Any]) -> None:
    """Up to 2025-11-25 a server asks in the midst of a call."""

    @server.tool()
    async def test_elicitation(message: str, context: Context[Any, Any]) -> CallToolResult:
        """Asks for a name and an address."""
        fields = {"username": {"type": "string"}, "email": {"type": "string"}}
        found = await context.session.elicit_form(message, _object(fields), context.request_id)
        return _said(f"User response: action={found.action}, content={found.content}")

    @server.tool()
    async def test_elicitation_sep1034_defaults(context: Context[Any, Any]) -> CallToolResult:
        """Asks with a default for each kind of field."""
        form = {"type": "object", "properties": DEFAULTS, "required": []}
        found = await context.session.elicit_form("Defaults", form, context.request_id)
        return _said(f"Elicitation completed: action={found.action}, content={found.content}")

    @server.tool()
    async def test_elicitation_sep1330_enums(context: Context[Any, Any]) -> CallToolResult:
        """Asks with each kind of choice."""
        form = {"type": "object", "properties": ENUMS, "required": []}
        found = await context.session.elicit_form("Choices", form, context.request_id)
        return _said(f"Elicitation completed: action={found.action}, content={found.content}")


def _add_sampling(server: MCPServer[Any]) -> None:
    """Remit itself never asks a client's model for anything."""

    @server.tool()
    async def test_sampling(prompt: str, context: Context[Any, Any]) -> CallToolResult:
        """Asks the client's model, in the midst of a call."""
        found = await context.session.send_request(_sample(prompt, 100), CreateMessageResult)
        return _said(f"LLM response: {found.content}")

    @server.tool()
    async def test_missing_capability(context: Context[Any, Any]) -> CallToolResult:
        """Needs a client that lends its model."""
        declared = context.client_capabilities
        if declared is None or declared.sampling is None:
            wanted = ClientCapabilities(sampling=SamplingCapability())
            data = MissingRequiredClientCapabilityErrorData(required_capabilities=wanted)
            told = data.model_dump(by_alias=True, mode="json", exclude_none=True)
            raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "The client does not lend its model", told)
        return _said("The client lends its model.")

    @server.tool()
    async def test_input_required_result_capabilities(context: Context[Any, Any]) -> Outcome:
        """Asks only for what the client can do."""
        declared = context.client_capabilities or ClientCapabilities()
        wanted: dict[str, InputRequest] = {}
        if declared.sampling is not None:
            wanted["greeting"] = _sample("Generate a greeting", 50)
        if declared.elicitation is not None:
            wanted["user_name"] = _form("What is your name?", "name")
        return InputRequiredResult(input_requests=wanted) if wanted else _said("The client can do neither.")


def _add_single(server: MCPServer[Any]) -> None:
    """From 2026-07-28 on a call is answered with what it needs, and made again with it."""

    @server.tool()
    async def test_input_required_result_elicitation(context: Context[Any, Any]) -> Outcome:
        """Asks for a name."""
        name = _field(_given(context, "user_name"), "name")
        if name is None:
            return InputRequiredResult(input_requests={"user_name": _form("What is your name?", "name")})
        return _said(f"Hello, {name}!")

    @server.tool()
    async def test_input_required_result_sampling(context: Context[Any, Any]) -> Outcome:
        """Asks the client's model."""
        found = _given(context, "capital_question")
        if not isinstance(found, CreateMessageResult):
            return InputRequiredResult(
                input_requests={"capital_question": _sample("What is the capital of France?", 100)}
            )
        return _said(f"The model says: {found.content}")

    @server.tool()
    async def test_input_required_result_list_roots(context: Context[Any, Any]) -> Outcome:
        """Asks for the client's roots."""
        found = _given(context, "client_roots")
        if not isinstance(found, ListRootsResult):
            return InputRequiredResult(input_requests={"client_roots": ListRootsRequest()})
        return _said(f"Roots: {', '.join(str(root.uri) for root in found.roots)}")

    @server.prompt(description="A prompt that asks for its context.")
    async def test_input_required_result_prompt(context: Context[Any, Any]) -> Any:
        given = _field(_given(context, "user_context"), "context")
        if given is None:
            return InputRequiredResult(
                input_requests={"user_context": _form("What context should the prompt use?", "context")}
            )
        return f"Use this context: {given}"


def _add_with_state(server: MCPServer[Any]) -> None:
    @server.tool()
    async def test_input_required_result_request_state(context: Context[Any, Any]) -> Outcome:
        """Keeps a state between two rounds."""
        if context.request_state != "begun" or _given(context, "confirm") is None:
            return InputRequiredResult(input_requests={"confirm": _yes_or_no()}, request_state="begun")
        return _said("state-ok")

    @server.tool()
    async def test_input_required_result_tampered_state(context: Context[Any, Any]) -> Outcome:
        """The same; the state is sealed by the server."""
        if context.request_state != "sealed" or _given(context, "confirm") is None:
            return InputRequiredResult(input_requests={"confirm": _yes_or_no()}, request_state="sealed")
        return _said("state-ok")

    @server.tool()
    async def test_input_required_result_multiple_inputs(context: Context[Any, Any]) -> Outcome:
        """Asks for three things at once."""
        wanted: dict[str, InputRequest] = {
            "user_name": _form("What is your name?", "name"),
            "greeting": _sample("Generate a greeting", 50),
            "client_roots": ListRootsRequest(),
        }
        if any(_given(context, key) is None for key in wanted):
            return InputRequiredResult(input_requests=wanted, request_state="asked for three")
        return _said("All three were given.")

    @server.tool()
    async def test_input_required_result_multi_round(context: Context[Any, Any]) -> Outcome:
        """Asks twice, one after the other."""
        if context.request_state == "second" and _given(context, "step2") is not None:
            return _said("Both steps are done.")
        if context.request_state == "first" and _given(context, "step1") is not None:
            second = _form("Step 2: What is your favorite color?", "color")
            return InputRequiredResult(input_requests={"step2": second}, request_state="second")
        first = _form("Step 1: What is your name?", "name")
        return InputRequiredResult(input_requests={"step1": first}, request_state="first")


def _given(context: Context[Any, Any], key: str) -> InputResponse | None:
    return (context.input_responses or {}).get(key)


def _field(response: InputResponse | None, name: str) -> Any:
    return (response.content or {}).get(name) if isinstance(response, ElicitResult) else None


def _form(message: str, field: str) -> ElicitRequest:
    form = _object({field: {"type": "string"}})
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=form))


def _yes_or_no() -> ElicitRequest:
    form = _object({"ok": {"type": "boolean"}})
    return ElicitRequest(params=ElicitRequestFormParams(message="Please confirm", requested_schema=form))


def _sample(question: str, tokens: int) -> CreateMessageRequest:
    message = SamplingMessage(role="user", content=TextContent(type="text", text=question))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=tokens))


def _object(fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(fields)}


def _said(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)])

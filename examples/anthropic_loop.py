"""The tool-use loop of the Anthropic SDK, with tools of Remit: a plan for files, and a governed function.

    make examples, or: PYTHONPATH=src .cache/examples/bin/python examples/anthropic_loop.py

The model is scripted: a server on this machine that speaks the Messages API. To use the real one, only the client's
address changes.
"""

import json
from typing import Any

import anthropic

from scripted import next_call, serve_model
from shop import PLAN, REQUEST, Shop, answer_as_person, open_shop, waits_for_person


def run_loop(client: anthropic.Anthropic, shop: Shop) -> str:
    """Ask the model, run the tools that it calls, and send it the results, until it calls no more tools."""
    tools: Any = shop.tools.definitions()
    messages: list[Any] = [{"role": "user", "content": REQUEST}]
    while True:
        message = client.messages.create(model="scripted", max_tokens=1_000, messages=messages, tools=tools)
        messages.append(
            {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in message.content]}
        )
        tool_uses = [block for block in message.content if block.type == "tool_use"]
        if not tool_uses:
            return "".join(block.text for block in message.content if block.type == "text")
        messages.append({"role": "user", "content": [use_tool(shop, use) for use in tool_uses]})


def use_tool(shop: Shop, use: anthropic.types.ToolUseBlock) -> dict[str, Any]:
    arguments = json.dumps(use.input)
    result = shop.tools.run(use.name, arguments, use.id)
    if waits_for_person(result):
        answer_as_person(shop.services)
        result = shop.tools.run(use.name, arguments, use.id)
    print(f"{use.name}: {result['state']}")
    is_error = result["state"] == "refused"
    return {"type": "tool_result", "tool_use_id": use.id, "content": json.dumps(result), "is_error": is_error}


def reply(request: dict[str, Any]) -> dict[str, Any]:
    """What the scripted model says, in the form of the Messages API."""
    blocks = [block for message in request["messages"] if message["role"] == "user" for block in message["content"]]
    results = [json.loads(block["content"]) for block in blocks if isinstance(block, dict)]
    call = next_call(results, PLAN)
    block: dict[str, Any]
    if call is not None:
        name, arguments = call
        block = {"type": "tool_use", "id": f"toolu_{len(results)}", "name": name, "input": arguments}
    else:
        block = {"type": "text", "text": "Done: acme has 5% off."}
    about = {"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "stop_sequence": None}
    usage = {"input_tokens": 0, "output_tokens": 0}
    return {**about, "content": [block], "stop_reason": "tool_use" if call else "end_turn", "usage": usage}


def main() -> None:
    with open_shop() as shop, serve_model(reply) as address:
        with anthropic.Anthropic(base_url=address, api_key="none") as client:
            print(run_loop(client, shop))
        shop.show()


if __name__ == "__main__":
    main()

"""The tool-call loop of the OpenAI SDK, with tools that are Remit's: a plan for files, and a governed function.

    make examples, or: PYTHONPATH=src .cache/examples/bin/python examples/openai_loop.py

The model is scripted: a server on this machine that speaks the Responses API. Point the client at the real one, and
nothing else changes.
"""

import json
from typing import Any

import openai

from scripted import next_call, serve_model
from shop import PLAN, REQUEST, Shop, answer_as_person, open_shop, waits_for_person


def run_loop(client: openai.OpenAI, shop: Shop) -> str:
    """Ask the model, run the tools that it calls, and send it the results, until it calls no more tools."""
    tools: Any = [
        {
            "type": "function",
            "name": tool["name"],
            "description": tool["description"],
            "parameters": tool["input_schema"],
            "strict": False,  # Remit checks the arguments itself
        }
        for tool in shop.tools.definitions()
    ]
    items: list[Any] = [{"role": "user", "content": REQUEST}]
    while True:
        response = client.responses.create(model="scripted", input=items, tools=tools)
        calls = [item for item in response.output if item.type == "function_call"]
        if not calls:
            return response.output_text
        items += [item.model_dump(exclude_none=True) for item in response.output]
        for call in calls:
            result = shop.tools.run(call.name, call.arguments, call.call_id)
            if waits_for_person(result):
                answer_as_person(shop.services)
                result = shop.tools.run(call.name, call.arguments, call.call_id)
            print(f"{call.name}: {result['state']}")
            items.append({"type": "function_call_output", "call_id": call.call_id, "output": json.dumps(result)})


def reply(request: dict[str, Any]) -> dict[str, Any]:
    """What the scripted model says, in the form of the Responses API."""
    results = [json.loads(item["output"]) for item in request["input"] if item.get("type") == "function_call_output"]
    call = next_call(results, PLAN)
    item: dict[str, Any]
    if call is not None:
        name, arguments = call
        number = len(results)
        item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "status": "completed"}
        item |= {"name": name, "arguments": json.dumps(arguments)}
    else:
        text = {"type": "output_text", "text": "Done: acme has 5% off.", "annotations": []}
        item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}
    about = {"id": "resp_1", "object": "response", "created_at": 0, "model": "scripted", "status": "completed"}
    return {**about, "output": [item], "parallel_tool_calls": False, "tool_choice": "auto", "tools": []}


def main() -> None:
    with open_shop() as shop, serve_model(reply) as address:
        with openai.OpenAI(base_url=f"{address}/v1", api_key="none") as client:
            print(run_loop(client, shop))
        shop.show()


if __name__ == "__main__":
    main()

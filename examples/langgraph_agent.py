"""A LangGraph agent with tools of Remit. The graph is interrupted until a person has answered, and then resumed.

    make examples, or: PYTHONPATH=src .cache/examples/bin/python examples/langgraph_agent.py

The model is scripted. No process waits while the graph is interrupted: the approval request is in Remit's store, and
the graph is in its checkpointer. Another process can resume it. When LangGraph runs a node again, the node makes the
same tool call with the same id. Remit then returns the first result, and does not repeat the effect.
"""

import json
from typing import Any, TypedDict, cast

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from scripted import next_call
from shop import PLAN, REQUEST, ShopTools, answer_as_person, open_shop, waits_for_person


class ScriptedModel(BaseChatModel):
    """A model that follows the script. Any chat model with `bind_tools` can replace it."""

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        results = [json.loads(str(message.content)) for message in messages if isinstance(message, ToolMessage)]
        call = next_call(results, PLAN)
        message = AIMessage("Done: acme has 5% off.")
        if call is not None:
            message = AIMessage("", tool_calls=[{"name": call[0], "args": call[1], "id": f"call_{len(results)}"}])
        return ChatResult(generations=[ChatGeneration(message=message)])

    @property
    def _llm_type(self) -> str:
        return "scripted"


class Interruption(TypedDict):
    """The value that the graph returns to its caller when it is interrupted."""

    tool: str
    state: str


def build_graph(model: BaseChatModel, tools: ShopTools) -> Any:
    def think(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    def act(state: MessagesState) -> dict[str, Any]:
        """Run the tool calls. LangGraph repeats this after each interrupt. It is safe: a call's id is its key."""
        return {"messages": [run_tool(call) for call in cast("AIMessage", state["messages"][-1]).tool_calls]}

    def run_tool(call: Any) -> ToolMessage:
        while waits_for_person(result := tools.run(call["name"], json.dumps(call["args"]), call["id"])):
            interrupt(Interruption(tool=call["name"], state=result["state"]))
        print(f"{call['name']}: {result['state']}")
        return ToolMessage(json.dumps(result), tool_call_id=call["id"])

    def choose_next_node(state: MessagesState) -> str:
        return "act" if cast("AIMessage", state["messages"][-1]).tool_calls else END

    graph = StateGraph(MessagesState)
    graph.add_node("think", think)
    graph.add_node("act", act)
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", choose_next_node, ["act", END])
    graph.add_edge("act", "think")
    return graph.compile(checkpointer=InMemorySaver())


def main() -> None:
    thread: Any = {"configurable": {"thread_id": "discount"}}
    with open_shop() as shop:
        graph = build_graph(ScriptedModel(), shop.tools)
        state = graph.invoke({"messages": [HumanMessage(REQUEST)]}, thread)
        while "__interrupt__" in state:
            print(f"interrupted: {state['__interrupt__'][0].value['tool']} waits for a person")
            answer_as_person(shop.services)  # a minute or a day later, perhaps in another process
            state = graph.invoke(Command(resume=True), thread)
        print(state["messages"][-1].content)
        shop.show()


if __name__ == "__main__":
    main()

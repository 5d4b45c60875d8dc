"""A small catalogue, as trees, and what is made of it."""

import copy
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from remit.contracts.goals.simulation import Simulation
from remit.goals.catalogue.catalogue import Catalogue, build_catalogue, check_files
from remit.goals.catalogue.files import CatalogueFinding
from remit.ledger.goal_queries import PromotedState

TENANT: Final = "acme"
READ_ONLY: Final = ("replica",)

ORDER: Final = {"type": "identifier", "question": "Which order?"}
AMOUNT: Final = {"type": "amount", "question": "How much?", "currencies": ["EUR", "USD"]}
GOAL: Final = {"type": "text", "question": "Which goal?"}

REFUND: Final[dict[str, Any]] = {
    "id": "refund-order",
    "version": "1",
    "title": "Refund an order",
    "impact": "irreversible",
    "risk": "HIGH",
    "access_action": "refund_order",
    "fields": {"order_id": ORDER, "amount": AMOUNT},
    "phrases": {
        "en": ["refund order {order_id}", "give {amount} back for order {order_id}"],
        "de": ["erstatte Bestellung {order_id}"],
        "zh": ["退款订单{order_id}"],
    },
    "rollback": "charge-order",
    "binding": {
        "type": "sql",
        "connection": "shop",
        "query": "UPDATE orders SET refunded = $amount WHERE id = $order",
        "parameters": {"order": "{order_id}", "amount": "{amount.value}"},
    },
}
CHARGE: Final[dict[str, Any]] = {
    **REFUND,
    "id": "charge-order",
    "title": "Charge an order again",
    "impact": "side_effecting",
    "fields": {"order_id": ORDER, "amount": AMOUNT, "of": {**GOAL, "optional": True}},
    "phrases": {},
    "rollback": "refund-order",
}
MOVE: Final[dict[str, Any]] = {
    "id": "file-report",
    "version": "1",
    "title": "File a report",
    "impact": "impactful",
    "risk": "LOW",
    "access_action": "file_report",
    "fields": {"name": {"type": "identifier", "question": "Which report?"}},
    "phrases": {"en": ["file the report {name}"]},
    "rollback": "undo-file-report",
    "binding": {
        "type": "task",
        "capability_id": "FILE_MOVE",
        "inputs": {"source_path": "/srv/in/{name}.txt", "destination_path": "/srv/filed/{name}.txt"},
    },
}
UNDO: Final[dict[str, Any]] = {
    "id": "undo-file-report",
    "version": "1",
    "title": "Take a report out again",
    "impact": "impactful",
    "risk": "LOW",
    "access_action": "file_report",
    "fields": {"of": GOAL},
    "rollback": "file-report",
    "binding": {"type": "undo"},
}
LOOKUP: Final[dict[str, Any]] = {
    "id": "look-up-order",
    "version": "1",
    "title": "Look an order up",
    "impact": "read_only",
    "risk": "LOW",
    "access_action": "look_up",
    "fields": {"order_id": ORDER},
    "phrases": {"en": ["show order {order_id}", "where is order {order_id}"]},
    "binding": {
        "type": "sql",
        "connection": "replica",
        "query": "SELECT * FROM orders WHERE id = $order",
        "parameters": {"order": "{order_id}"},
    },
}
NOTE: Final[dict[str, Any]] = {
    "id": "write-note",
    "version": "1",
    "title": "Write a note",
    "impact": "impactful",
    "risk": "LOW",
    "access_action": "write_note",
    "fields": {
        "name": {"type": "identifier", "question": "Under which name?"},
        "text": {"type": "text", "question": "What shall it say?"},
    },
    "phrases": {"en": ["note {text} as {name}"]},
    "rollback": "undo-file-report",
    "binding": {
        "type": "plan",
        "template": {
            "action_plan": [
                {
                    "action_id": "write",
                    "action_type": "FILE_CREATE",
                    "target": "notes/{name}.txt",
                    "operation": {"type": "write", "content": "{{{name}}}: {text}\n"},
                }
            ]
        },
    },
}
BUY: Final[dict[str, Any]] = {
    "id": "buy-paper",
    "version": "1",
    "title": "Buy paper",
    "impact": "irreversible",
    "risk": "HIGH",
    "access_action": "buy",
    "fields": {
        "order_id": ORDER,
        "amount": AMOUNT,
        "words": {"type": "text", "question": "Any words?"},
    },
    "phrases": {"en": ["buy paper for {order_id}"]},
    "rollback": "charge-order",
    "binding": {
        "type": "browser",
        "action": {
            "type": "purchase",
            "target": "https://shop.example/orders/{order_id}?words={words}",
            "selector": "#buy",
            "amount": "{amount}",
        },
        "domains": ["shop.example"],
        "max_purchase": {"value": 50, "currency": "EUR"},
    },
}
FILE_AND_NOTE: Final[dict[str, Any]] = {
    "id": "file-and-note",
    "version": "1",
    "title": "Look an order up, file its report, and write a note",
    "impact": "impactful",
    "risk": "LOW",
    "access_action": "file_and_note",
    "fields": {
        "report": {"type": "identifier", "question": "Which report?"},
        "order_id": ORDER,
        "words": {"type": "text", "question": "Any words?"},
    },
    "phrases": {"en": ["file {report} and note {words} for order {order_id}"]},
    "binding": {
        "type": "composite",
        "steps": [
            {"id": "look", "simulation": "look-up-order", "fields": {"order_id": "{order_id}"}},
            {"id": "file", "simulation": "file-report", "fields": {"name": "{report}"}, "depends_on": []},
            {
                "id": "note",
                "simulation": "write-note",
                "fields": {"name": "{look.customer}", "text": "{words}"},
                "depends_on": ["look", "file"],
            },
        ],
    },
}
"""A composite simulation: `look` and `file` depend on nothing, and `note` on both."""
NOTHING: Final[dict[str, Any]] = {
    "id": "nothing",
    "version": "1",
    "title": "Do nothing",
    "impact": "read_only",
    "risk": "LOW",
    "access_action": "look_up",
    "fields": {"of": GOAL},
    "binding": {"type": "task", "capability_id": "NO_EFFECT", "inputs": {}},
}
LOOKUP_WITH_OUTPUT: Final[dict[str, Any]] = {
    **LOOKUP,
    "rollback": "nothing",
    "outputs": {"customer": {"type": "identifier", "source": "customer"}},
}
COMPOSITE: Final = (FILE_AND_NOTE, LOOKUP_WITH_OUTPUT, NOTHING, MOVE, UNDO, NOTE)
ALL: Final = (REFUND, CHARGE, MOVE, UNDO, LOOKUP, NOTE, BUY)


def changed(tree: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A copy with some members replaced; `binding__query=...` reaches one level down."""
    made = copy.deepcopy(tree)
    for name, value in changes.items():
        outer, _, inner = name.partition("__")
        if inner:
            made[outer][inner] = value
        else:
            made[outer] = value
    return made


def simulation(tree: dict[str, Any]) -> Simulation:
    return Simulation.from_tree(tree)


def findings(folder: Path, *trees: dict[str, Any]) -> list[CatalogueFinding]:
    """What the check says of these, with the rest of the catalogue beside them."""
    ids = {tree["id"] for tree in trees}
    beside = [tree for tree in ALL if tree["id"] not in ids]
    return raw_findings(folder, *trees, *beside)


def raw_findings(folder: Path, *trees: dict[str, Any]) -> list[CatalogueFinding]:
    (folder / "simulations.json").write_text(json.dumps({"version": 1, "simulations": trees}))
    return list(check_files(folder, ["simulations.json"], read_only_connections=READ_ONLY)[1])


def catalogue_of(*trees: dict[str, Any], active: Sequence[str] | None = None, tenant: str = TENANT) -> Catalogue:
    """All of them ACTIVE unless told which."""
    definitions = [simulation(tree) for tree in trees or ALL]
    states = {
        each.id: PromotedState(each.id, each.version, each.own_digest, "ACTIVE", "os:ann", "", "")
        for each in definitions
        if active is None or each.id in active
    }
    return build_catalogue(tenant, definitions, states)

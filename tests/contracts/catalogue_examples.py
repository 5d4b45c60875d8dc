"""Files of simulations: every type of field, every kind of binding."""

from typing import Any

_FIELDS: dict[str, Any] = {
    "name": {"type": "text", "question": "What name?", "optional": True, "max_length": 40, "pattern": "[a-z]+"},
    "order_id": {"type": "identifier", "question": "Which order?", "pattern": "[A-Z]-[0-9]+"},
    "count": {"type": "integer", "question": "How many?", "minimum": 1, "maximum": 9},
    "amount": {"type": "amount", "question": "How much?", "currencies": ["EUR"]},
    "day": {"type": "date", "question": "When?"},
    "mail": {"type": "email", "question": "To whom?"},
    "colour": {"type": "choice", "question": "Which colour?", "choices": ["red", "blue"]},
    "file": {"type": "path", "question": "Which file?"},
}


def _file(binding: dict[str, Any], **more: Any) -> dict[str, Any]:
    simulation = {
        "id": "refund-order",
        "version": "1",
        "title": "Refund an order",
        "impact": "impactful",
        "risk": "HIGH",
        "access_action": "refund_order",
        "rollback": "undo-refund",
        "timeout_seconds": 30,
        "binding": binding,
        **more,
    }
    return {"version": 1, "simulations": [simulation]}


CATALOGUES: dict[str, dict[str, Any]] = {
    "catalogue-file/task": _file(
        {"type": "task", "capability_id": "FILE_DELETE", "inputs": {"source_path": "/srv/{file}"}, "reversible": True},
        fields=_FIELDS,
        phrases={"en": ["refund {order_id}"], "de-AT": ["erstatte {order_id}"]},
        field_order=list(_FIELDS),
    ),
    "catalogue-file/plan": _file({"type": "plan", "template": {"action_plan": []}}),
    "catalogue-file/plan-file": _file({"type": "plan", "template_file": "plans/refund.yaml"}),
    "catalogue-file/sql": _file(
        {
            "type": "sql",
            "connection": "shop",
            "query": "SELECT 1",
            "parameters": {"a": "{order_id}"},
            "description": "Looks.",
            "expect_results": True,
            "save_results_to": "out.csv",
            "reversible": True,
        }
    ),
    "catalogue-file/browser": _file(
        {
            "type": "browser",
            "action": {"type": "navigate", "target": "https://shop.example/"},
            "domains": ["shop.example"],
            "max_purchase": {"value": 5, "currency": "EUR"},
        }
    ),
    "catalogue-file/undo": _file({"type": "undo"}),
}

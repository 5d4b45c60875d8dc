"""The accessibility tree of a page with its frames, for an agent: roles, names, values and references.

Chromium computes the roles and names for screen readers. The value of a password field, or of any other secret field,
is never part of the tree. The size of the tree is limited; a larger one is marked `truncated`.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final

from remit.browser.chromium.documents import Documents, FoundElement, FrameDocument, call_in_document
from remit.browser.chromium.element_refs import ElementRef
from remit.browser.chromium.secret_fields import is_secret_field
from remit.browser.model.masking import mask_url
from remit.core.errors import Reason, RefusedError

MOST_NODES: Final = 3_000
MOST_TEXT: Final = 500
DEEPEST: Final = 9
"""The deepest level of the tree. Deeper elements are moved up to it, because the depth of a result is limited."""
MOST_FIELDS: Final = 500
LARGE: Final = 5_000
"""The number of elements of one document above which only a part of it is read."""
MOST_PARTS: Final = 800

_TRANSPARENT: Final = frozenset({"generic", "none", "presentation", "InlineTextBox", "LineBreak", "LayoutTable"})
_FIELDS: Final = frozenset(
    {"textbox", "searchbox", "combobox", "spinbutton", "slider", "Date", "DateTime", "InputTime"}
)
_STATES: Final = ("checked", "disabled", "expanded", "selected", "pressed", "required")


@dataclass
class _SnapshotState:
    documents: Documents
    inner: dict[tuple[str, int], FrameDocument]
    """The document of each <iframe>, by the outer frame and the element."""
    nodes_left: int = MOST_NODES
    truncated: bool = False
    trees: dict[str, dict[str, Any]] = field(default_factory=dict)
    secret: set[tuple[str, int]] = field(default_factory=set)


async def take_snapshot(documents: Documents, part: FoundElement | None) -> dict[str, Any]:
    """Take a snapshot of the page, or of one element with its content."""
    everything = await documents.all()
    reading = _SnapshotState(documents, await _find_owners(everything))
    await asyncio.gather(*(_read(reading, document) for document in everything))
    document, start = everything[0], None
    if part is not None:
        document = part.document
        answer = await document.cdp.send("DOM.describeNode", {"objectId": part.handle})
        start = int(answer["node"]["backendNodeId"])
    nodes = reading.trees.get(document.frame_id, {})
    root = next(
        (node for node in nodes.values() if (start is None and "parentId" not in node) or _number(node) == start), None
    )
    if root is None:
        raise RefusedError(
            Reason.ELEMENT_MISSING,
            "the accessibility tree of the page does not contain this element",
            next_step="Take a snapshot of the whole page.",
        )
    tree = _build_node(reading, document, nodes, root, 0)
    top: dict[str, Any] = tree[0] if len(tree) == 1 else {"role": "group", "name": "", "children": tree}
    return {**top, "truncated": True} if reading.truncated else top


async def _find_owners(everything: list[FrameDocument]) -> dict[tuple[str, int], FrameDocument]:
    async def owner(inner: FrameDocument) -> tuple[tuple[str, int], FrameDocument] | None:
        around = next((other for other in everything if other.frame_id == inner.parent_id), None)
        if around is None:
            return None
        answer = await around.cdp.send("DOM.getFrameOwner", {"frameId": inner.frame_id})
        return (around.frame_id, answer["backendNodeId"]), inner

    found = await asyncio.gather(*map(owner, everything))
    return dict(pair for pair in found if pair is not None)


async def _read(reading: _SnapshotState, document: FrameDocument) -> None:
    if (await call_in_document(document, "size")).get("value", 0) > LARGE:
        nodes = await _read_parts(reading, document)
    else:
        answer = await document.cdp.send("Accessibility.getFullAXTree", {"frameId": document.frame_id})
        nodes = {node["nodeId"]: node for node in answer["nodes"]}
    reading.trees[document.frame_id] = nodes
    fields = [node for node in nodes.values() if _text(node, "role") in _FIELDS and _number(node) is not None]
    # Fields above this number are not inspected, so none of them shows its value.
    reading.secret.update((document.frame_id, node["backendDOMNodeId"]) for node in fields[MOST_FIELDS:])
    await asyncio.gather(*(_mark_secret(reading, document, node) for node in fields[:MOST_FIELDS]))


async def _read_parts(reading: _SnapshotState, document: FrameDocument) -> dict[str, Any]:
    """Read one level of a large document: its usable elements and its headings. The whole tree would take minutes."""
    reading.truncated = True
    await document.cdp.send("Accessibility.enable")  # otherwise the whole tree is built again for each element
    try:
        parts = await call_in_document(document, "usable", MOST_PARTS, by_value=False)
        listed = await document.cdp.send(
            "Runtime.getProperties", {"objectId": parts["objectId"], "ownProperties": True}
        )
        handles = [item["value"]["objectId"] for item in listed["result"] if item["name"].isdigit()]
        answers = await asyncio.gather(*(_read_part(document, handle) for handle in handles))
    finally:
        await document.cdp.send("Accessibility.disable")
    nodes = {node["nodeId"]: {**node, "childIds": [], "parentId": "root"} for node in answers if node is not None}
    root = {"nodeId": "root", "role": {"value": "RootWebArea"}, "childIds": list(nodes)}
    return {"root": root, **nodes}


async def _read_part(document: FrameDocument, handle: str) -> dict[str, Any] | None:
    answer = await document.cdp.send("Accessibility.getPartialAXTree", {"objectId": handle, "fetchRelatives": False})
    return next(iter(answer["nodes"]), None)


async def _mark_secret(reading: _SnapshotState, document: FrameDocument, node: dict[str, Any]) -> None:
    """Mark a field if it is secret. Its attributes come from the browser and not from scripts."""
    number = node["backendDOMNodeId"]
    answer = await document.cdp.send("DOM.describeNode", {"backendNodeId": number})
    listed = answer["node"].get("attributes", [])
    attributes = dict(zip(listed[::2], listed[1::2], strict=True))
    names = ("name", "id", "aria-label", "placeholder", "autocomplete")
    words = [attributes[name] for name in names if attributes.get(name)] + [_text(node, "name")]
    if is_secret_field(attributes.get("type", "").lower(), words, _text(node, "value")):
        reading.secret.add((document.frame_id, number))


def _build_node(
    reading: _SnapshotState, document: FrameDocument, nodes: dict[str, Any], node: dict[str, Any], depth: int
) -> list[dict[str, Any]]:
    """Build the nodes for one node of the tree: usually one, or those of its children if it has no content itself."""
    role = _text(node, "role")
    inner = reading.inner.get((document.frame_id, _number(node) or -1))
    is_shown = not node.get("ignored") and role not in _TRANSPARENT
    if not is_shown and inner is None:
        return _build_children(reading, document, nodes, node, depth)
    if reading.nodes_left <= 0:
        reading.truncated = True
        return []
    reading.nodes_left -= 1
    rendered = _render_node(reading, document, node, role)
    if role == "StaticText":
        return [rendered] if rendered["name"] else []
    deeper = min(depth + 1, DEEPEST)
    if inner is not None:
        rendered["url"] = mask_url(inner.url)[:MOST_TEXT]
        children = _build_frame(reading, inner, deeper)
    elif role in _FIELDS and not _is_list(role, node):
        children = []  # they would repeat its value
    else:
        children = _build_children(reading, document, nodes, node, deeper)
    only = children[0] if len(children) == 1 else None
    if only is not None and only["role"] == "text" and only["name"] == rendered["name"]:
        children = []
    if depth >= DEEPEST:
        return [rendered, *children]
    return [{**rendered, "children": children}] if children else [rendered]


def _is_list(role: str, node: dict[str, Any]) -> bool:
    """Whether a node is a <select>. Its options are useful and not secret."""
    return role == "combobox" and not any(prop["name"] == "editable" for prop in node.get("properties", []))


def _build_frame(reading: _SnapshotState, inner: FrameDocument, depth: int) -> list[dict[str, Any]]:
    nodes = reading.trees.get(inner.frame_id, {})
    root = next((node for node in nodes.values() if "parentId" not in node), None)
    return [] if root is None else _build_children(reading, inner, nodes, root, depth)


def _build_children(
    reading: _SnapshotState, document: FrameDocument, nodes: dict[str, Any], node: dict[str, Any], depth: int
) -> list[dict[str, Any]]:
    # This loop is not recursive, because a page may be nested more deeply than Python's recursion limit.
    found: list[dict[str, Any]] = []
    waiting = [nodes[child] for child in reversed(node.get("childIds", [])) if child in nodes]
    while waiting:
        child = waiting.pop()
        passed = child.get("ignored") or _text(child, "role") in _TRANSPARENT
        if passed and (document.frame_id, _number(child) or -1) not in reading.inner:
            waiting.extend(nodes[below] for below in reversed(child.get("childIds", [])) if below in nodes)
        elif depth >= DEEPEST and reading.nodes_left > 0:
            rendered = _build_node(reading, document, {}, child, depth)
            found.extend(rendered)
            if not (_text(child, "role") in _FIELDS and not _is_list(_text(child, "role"), child)):
                waiting.extend(nodes[below] for below in reversed(child.get("childIds", [])) if below in nodes)
        else:
            found.extend(_build_node(reading, document, nodes, child, depth))
    return found


def _render_node(reading: _SnapshotState, document: FrameDocument, node: dict[str, Any], role: str) -> dict[str, Any]:
    name = _text(node, "name").strip()[:MOST_TEXT]
    if role == "StaticText":
        return {"role": "text", "name": name}
    rendered: dict[str, Any] = {"role": "document" if role == "RootWebArea" else role, "name": name}
    number = _number(node)
    if number is not None and role != "RootWebArea":
        element = ElementRef(document.frame_id, document.loader_id, number)
        rendered["ref"] = reading.documents.references.get_or_create(element)
    value = _text(node, "value")[:MOST_TEXT]
    if value and (document.frame_id, number) not in reading.secret:
        rendered["value"] = value
    for prop in node.get("properties", []):
        state = prop["value"].get("value")
        if prop["name"] == "url" and role == "link":
            rendered["url"] = mask_url(str(state))[:MOST_TEXT]
        if prop["name"] in _STATES and state not in (False, "false", None):
            rendered[prop["name"]] = True if state == "true" else state
    return rendered


def _text(node: dict[str, Any], name: str) -> str:
    value = node.get(name, {}).get("value", "")
    return value if isinstance(value, str) else str(value)


def _number(node: dict[str, Any]) -> int | None:
    number: int | None = node.get("backendDOMNodeId")
    return number

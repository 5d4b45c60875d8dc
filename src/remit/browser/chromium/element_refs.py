"""References to elements in snapshots: short, and never used for a second element."""

from dataclasses import dataclass, field
from typing import NamedTuple


class ElementRef(NamedTuple):
    """The element that a reference names."""

    frame_id: str
    loader_id: str
    node_id: int


@dataclass
class References:
    """The references of a session. An element keeps its reference as long as it exists. No reference is used twice."""

    _by_ref: dict[str, ElementRef] = field(default_factory=dict)
    _by_element: dict[ElementRef, str] = field(default_factory=dict)

    def get_or_create(self, element: ElementRef) -> str:
        if element not in self._by_element:
            ref = f"e{len(self._by_ref) + 1}"
            self._by_ref[ref] = element
            self._by_element[element] = ref
        return self._by_element[element]

    def find(self, ref: str) -> ElementRef | None:
        return self._by_ref.get(ref)

"""Names for elements, given out by snapshots: short, and never given twice."""

from dataclasses import dataclass, field
from typing import NamedTuple


class ElementRef(NamedTuple):
    """What a reference stands for."""

    frame_id: str
    loader_id: str
    node_id: int


@dataclass
class References:
    """The same element has the same reference as long as it lives; none is ever given twice."""

    _by_ref: dict[str, ElementRef] = field(default_factory=dict)
    _by_known: dict[ElementRef, str] = field(default_factory=dict)

    def of(self, known: ElementRef) -> str:
        if known not in self._by_known:
            ref = f"e{len(self._by_ref) + 1}"
            self._by_ref[ref] = known
            self._by_known[known] = ref
        return self._by_known[known]

    def get(self, ref: str) -> ElementRef | None:
        return self._by_ref.get(ref)

"""Functions that append to a file, so that it keeps every value that was ever set."""

import json
from pathlib import Path
from typing import Any

from remit.governed_functions import governed
from remit.workspace.workspace import Workspace


def declare(workspace: Workspace, file: str) -> dict[str, Any]:
    path = Path(file)

    def append(value: int) -> int:
        path.write_text(json.dumps([*json.loads(path.read_text()), value]))
        return value

    def before(**_: Any) -> int:
        last: int = json.loads(path.read_text())[-1]
        return last

    def restore(before: int, **_: Any) -> None:
        append(before)

    @governed(workspace, "kill.undoable", consent="none", before=before, undo=restore)
    def undoable(value: int) -> int:
        return append(value)

    @governed(workspace, "kill.final", consent="policy", allow=lambda **_: True)
    def final(value: int) -> int:
        return append(value)

    @governed(workspace, "kill.repeatable", consent="policy", allow=lambda **_: True, idempotent=True)
    def repeatable(value: int) -> int:
        return append(value)

    @governed(workspace, "kill.asking")
    def asking(value: int) -> int:
        return append(value)

    return {"undoable": undoable, "final": final, "repeatable": repeatable, "asking": asking}

"""FILE_HASH, the sandboxed side of an executor that Remit does not ship: reads a file and says its digest."""

import hashlib
import os
from typing import Any, Final

from remit.executors import EffectContext, open_file

__all__ = ["HASH"]


class _Hash:
    def run(self, work: EffectContext) -> dict[str, Any]:
        spot = work.spots["source_path"]
        descriptor = open_file(spot.folder, spot.name)
        try:
            total = os.fstat(descriptor).st_size
            digest, done = hashlib.sha256(), 0
            while chunk := os.read(descriptor, 1 << 20):
                digest.update(chunk)
                done += len(chunk)
                work.progress(done, total)
        finally:
            os.close(descriptor)
        return {"result_summary": {"source": spot.path, "sha256": digest.hexdigest()}, "undo_metadata": {}}

    def settle(self, work: EffectContext, *, finish: bool) -> dict[str, Any] | None:  # noqa: ARG002 - the protocol
        """Reading changes nothing, so nothing is left to finish or to undo."""
        return None


HASH: Final = _Hash()

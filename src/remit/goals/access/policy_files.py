"""The policy files that remit.yaml names, read at one moment."""

from collections.abc import Callable, Collection
from pathlib import Path

from remit.contracts.goals.access import MAX_FILE_BYTES, MAX_FILES
from remit.core.errors import Reason, RefusedError
from remit.fs.paths import plain_spelling
from remit.plans.engines.input_files import read_below


def read_policy_files(
    root: Path, names: Collection[str], read: Callable[[str, str, int], tuple[bytes, str]] = read_below
) -> dict[str, str]:
    """Read all files below the root, without following links. One missing file fails all: it might contain a forbid."""
    if len(names) > MAX_FILES:
        raise RefusedError(
            Reason.TOO_LARGE,
            f"there are more than {MAX_FILES} policy files, which is the limit",
            where="policies.cedar_files",
            next_step="Put several policies into one file.",
        )
    texts: dict[str, str] = {}
    for name in sorted(names):
        content, _ = read(str(root), name, MAX_FILE_BYTES)
        try:
            texts[plain_spelling(name)] = content.decode("utf-8")
        except UnicodeDecodeError:
            raise RefusedError(
                Reason.NOT_TEXT, "the policy file is not UTF-8 text", where=name, next_step="Save the file as UTF-8."
            ) from None
    return texts

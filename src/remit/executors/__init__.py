"""The public names for authors of executors: the declaration of a capability, and file functions for its effect.

The sandboxed process imports this package. Each name is loaded on first use, so an effect that imports `open_file` does
not load the models. No name in this package gives access to keys, the ledger or the store.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from remit.contracts.base import AbsolutePath, Contract, Identifier
    from remit.contracts.tasks.result import Nothing
    from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
    from remit.effects.context import Effect, EffectContext
    from remit.effects.registry import Capability, PathUse
    from remit.fs.openat import FileIdentity, identify, open_file, peek, rename_noreplace

__all__ = [
    "AbsolutePath",
    "Capability",
    "Contract",
    "Effect",
    "EffectContext",
    "EnvironmentFailureError",
    "FileIdentity",
    "Identifier",
    "Nothing",
    "PathUse",
    "Reason",
    "RefusedError",
    "identify",
    "open_file",
    "peek",
    "rename_noreplace",
]

_DEFINED_IN: Final = {
    "AbsolutePath": "remit.contracts.base",
    "Capability": "remit.effects.registry",
    "Contract": "remit.contracts.base",
    "Effect": "remit.effects.context",
    "EffectContext": "remit.effects.context",
    "EnvironmentFailureError": "remit.core.errors",
    "FileIdentity": "remit.fs.openat",
    "Identifier": "remit.contracts.base",
    "Nothing": "remit.contracts.tasks.result",
    "PathUse": "remit.effects.registry",
    "Reason": "remit.core.errors",
    "RefusedError": "remit.core.errors",
    "identify": "remit.fs.openat",
    "open_file": "remit.fs.openat",
    "peek": "remit.fs.openat",
    "rename_noreplace": "remit.fs.openat",
}


def __getattr__(name: str) -> object:
    if name not in _DEFINED_IN:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_DEFINED_IN[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

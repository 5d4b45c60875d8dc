"""Health checks: alive (/healthz) and ready for work (/readyz). They are public, so they show no path and no value."""

import time
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from remit.contracts.base import Contract, Many, ShortText
from remit.diagnostics import disk
from remit.diagnostics import workspace as checks
from remit.diagnostics.check import Check, Topic
from remit.sandbox.kernel_probes import probe_kernel
from remit.web.config.reload import SETTINGS, SettingsWatcher
from remit.web.http.openapi import operation
from remit.web.http.request import json_response
from remit.workspace.workspace import Workspace

KERNEL_SECONDS: Final = 60.0
"""Seconds between two tests of the kernel. A test starts a process, and its result rarely changes."""
CONFINEMENT: Final = Topic("sandbox", "effects that the kernel confines")


class Alive(Contract):
    """The server is running."""

    status: ShortText = "alive"


class Finding(Contract):
    """The result of one check. `remit doctor` on the machine shows the details of a failure."""

    name: ShortText
    ok: bool


class Readiness(Contract):
    """Whether the server is ready for work, with the result of each check."""

    ready: bool
    checks: Many[Finding]
    next_step: ShortText = ""


def health_router() -> APIRouter:
    router = APIRouter()
    kernel = _Kernel()

    @router.get("/healthz", **operation("alive", "Check that the server responds", answers={200: Alive}, public=True))
    async def alive() -> Response:  # it needs no thread, so it responds when all threads are busy
        return json_response(Alive())

    @router.get(
        "/readyz",
        **operation(
            "ready",
            "Check that the server is ready: settings, store, tables, disk space, keys, sandbox",
            answers={200: Readiness, 503: Readiness},
            public=True,
        ),
    )
    def ready(request: Request) -> Response:
        found = check_readiness(request.app.state.services.workspace, request.app.state.settings_read, kernel)
        return json_response(found, 200 if found.ready else 503)

    return router


def check_readiness(workspace: Workspace, settings: SettingsWatcher, kernel: "_Kernel") -> Readiness:
    """Run the checks of `remit doctor` that decide whether the server can work."""
    found = [
        SETTINGS.run(settings.check),
        checks.KEY_FILES.run(lambda: checks.check_key_files(workspace.state.keys)),
        checks.KEYRING.run(lambda: checks.check_keyring(workspace.state.keys)),
        *_store(workspace),
        disk.SPACE.run(lambda: disk.check_space(*disk.read_space(workspace.state.path))),
        CONFINEMENT.run(lambda: kernel.check(workspace.initial_config.sandbox)),
    ]
    ready = all(check.status != "fail" for check in found)
    return Readiness(
        ready=ready,
        checks=tuple(Finding(name=check.name, ok=check.status != "fail") for check in found),
        next_step="" if ready else "Run `remit doctor` on the machine. It shows what is wrong and what to do.",
    )


def _store(workspace: Workspace) -> list[Check]:
    def opened() -> Check:
        with workspace.store.reading() as connection:
            return checks.check_tables(connection, workspace.anchors)

    return [checks.STORE.run(opened)]


class _Kernel:
    """Tests whether the kernel can confine effects, at most once a minute."""

    def __init__(self) -> None:
        self._found: tuple[float, Any] | None = None

    def check(self, setting: str) -> Check:
        if setting == "unsafe-none":
            return CONFINEMENT.warn("turned off", "sandbox: required")
        now = time.monotonic()
        if self._found is None or now - self._found[0] > KERNEL_SECONDS:
            self._found = now, probe_kernel()
        features = self._found[1]
        works = features.confinement.works and features.seccomp.works
        return CONFINEMENT.ok("") if works else CONFINEMENT.fail("not available", "See `remit doctor`.")

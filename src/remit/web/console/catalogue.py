"""The catalogue pages: list the simulations of a tenant, show one, promote it, retire it."""

import json
from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from remit.core.errors import RefusedError, RemitError
from remit.web.console import confirm as confirm_texts
from remit.web.console.confirm_page import is_confirmed, render_confirmation
from remit.web.console.forms import Filled
from remit.web.console.pages import ConsoleRoute, Viewer, get_services, page, redirect_to, require_viewer
from remit.web.console.templating import address
from remit.web.http.problems import status_of

router: Final = APIRouter(route_class=ConsoleRoute, include_in_schema=False)


@router.get("/catalogue")
def catalogue(request: Request, tenant: str = "") -> Response:
    viewer = require_viewer(request)
    services = get_services(request)
    tenants = sorted(services.workspace.config.tenants)
    chosen = tenant or (tenants[0] if tenants else "")
    view = services.catalogue.list_simulations(viewer.caller, chosen) if chosen else None
    return page(request, "catalogue.html", here="/catalogue", tenants=tenants, tenant=chosen, view=view)


@router.get("/catalogue/simulation")
def simulation(request: Request, tenant: str = "", id: str = "") -> Response:  # noqa: A002 - as in the address
    return _render_catalogue(request, require_viewer(request), tenant, id)


@router.post("/catalogue/promote")
def promote(request: Request, form: Filled) -> Response:
    viewer = require_viewer(request)
    tenant, name = form.one("tenant"), form.one("id")
    if not is_confirmed(form):
        return render_confirmation(
            request, form, confirm_texts.promote(name, tenant), address("/catalogue", tenant=tenant)
        )
    try:
        get_services(request).catalogue.promote(
            viewer.caller, tenant, name, digest=form.one("digest"), reason=form.given("reason")
        )
    except RefusedError as problem:
        return _render_catalogue(request, viewer, tenant, name, problem)
    return redirect_to(address("/catalogue/simulation", tenant=tenant, id=name, said="promoted"))


@router.post("/catalogue/retire")
def retire(request: Request, form: Filled) -> Response:
    viewer = require_viewer(request)
    tenant, name = form.one("tenant"), form.one("id")
    if not is_confirmed(form):
        return render_confirmation(
            request, form, confirm_texts.retire(name, tenant), address("/catalogue", tenant=tenant)
        )
    get_services(request).catalogue.retire(viewer.caller, tenant, name, reason=form.given("reason"))
    return redirect_to(address("/catalogue", tenant=tenant, said="retired"))


def _render_catalogue(
    request: Request, viewer: Viewer, tenant: str, name: str, problem: RemitError | None = None
) -> Response:
    view = get_services(request).catalogue.show(viewer.caller, tenant, name)
    return page(
        request,
        "simulation.html",
        status_of(problem) if problem else 200,
        here="/catalogue",
        view=view,
        line=view.line,
        whole=json.dumps(view.simulation, ensure_ascii=False, indent=2),
        problem=problem,
    )

"""/v1/catalogue: simulations, seen by people, promoted and retired by an admin."""

from fastapi import APIRouter
from starlette.responses import Response

from remit.contracts.services.admin import CatalogueView, SimulationView, StateSaid
from remit.services.base.permissions import Right
from remit.web.api.request_models import Promotion, Withdrawal
from remit.web.http.openapi import operation
from remit.web.http.request import Asked, AskedWithBody, PathId, answer

router = APIRouter(tags=["catalogue"])
_TENANT = "/v1/catalogue/{tenant}"
_ONE = f"{_TENANT}/{{simulation_id}}"


@router.get(
    _TENANT,
    **operation(
        "listCatalogue",
        "What a tenant's users can have done",
        right=Right.SEE,
        answers={200: CatalogueView},
    ),
)
def list_catalogue(call: Asked, tenant: PathId) -> Response:
    return answer(call.desk.catalogue.list_simulations(call.caller, tenant))


@router.get(
    _ONE,
    **operation("getSimulation", "One simulation, whole", right=Right.SEE, answers={200: SimulationView}),
)
def get_simulation(call: Asked, tenant: PathId, simulation_id: PathId) -> Response:
    return answer(call.desk.catalogue.show(call.caller, tenant, simulation_id))


@router.post(
    f"{_ONE}/promote",
    **operation(
        "promoteSimulation",
        "Make it ACTIVE, exactly as it was read",
        right=Right.CHANGE_CATALOGUE,
        body=Promotion,
        answers={200: SimulationView},
    ),
)
def promote_simulation(call: AskedWithBody, tenant: PathId, simulation_id: PathId) -> Response:
    said = call.parse(Promotion)
    found = call.desk.catalogue.promote(
        call.caller, tenant, simulation_id, digest=said.definition_digest, reason=said.reason
    )
    return answer(found)


@router.post(
    f"{_ONE}/retire",
    **operation(
        "retireSimulation",
        "Stop it at once",
        right=Right.CHANGE_CATALOGUE,
        body=Withdrawal,
        answers={200: StateSaid},
    ),
)
def retire_simulation(call: AskedWithBody, tenant: PathId, simulation_id: PathId) -> Response:
    said = call.parse(Withdrawal)
    return answer(call.desk.catalogue.retire(call.caller, tenant, simulation_id, reason=said.reason))

"""/v1/catalogue: simulations. People read them; an admin promotes and retires them."""

from fastapi import APIRouter
from starlette.responses import Response

from remit.contracts.services.admin import CatalogueView, SimulationView, StateSaid
from remit.services.base.permissions import Right
from remit.web.api.request_models import Promotion, Withdrawal
from remit.web.http.openapi import operation
from remit.web.http.request import BodyRequestDep, PathId, RequestDep, json_response

router = APIRouter(tags=["catalogue"])
_TENANT = "/v1/catalogue/{tenant}"
_ONE = f"{_TENANT}/{{simulation_id}}"


@router.get(
    _TENANT,
    **operation(
        "listCatalogue",
        "List the simulations that the users of a tenant can request",
        right=Right.SEE,
        answers={200: CatalogueView},
    ),
)
def list_catalogue(call: RequestDep, tenant: PathId) -> Response:
    return json_response(call.services.catalogue.list_simulations(call.caller, tenant))


@router.get(
    _ONE,
    **operation(
        "getSimulation", "Get one simulation with its definition", right=Right.SEE, answers={200: SimulationView}
    ),
)
def get_simulation(call: RequestDep, tenant: PathId, simulation_id: PathId) -> Response:
    return json_response(call.services.catalogue.show(call.caller, tenant, simulation_id))


@router.post(
    f"{_ONE}/promote",
    **operation(
        "promoteSimulation",
        "Make a simulation ACTIVE, if it is unchanged since it was read",
        right=Right.CHANGE_CATALOGUE,
        body=Promotion,
        answers={200: SimulationView},
    ),
)
def promote_simulation(call: BodyRequestDep, tenant: PathId, simulation_id: PathId) -> Response:
    decision = call.parse(Promotion)
    found = call.services.catalogue.promote(
        call.caller, tenant, simulation_id, digest=decision.definition_digest, reason=decision.reason
    )
    return json_response(found)


@router.post(
    f"{_ONE}/retire",
    **operation(
        "retireSimulation",
        "Retire a simulation at once",
        right=Right.CHANGE_CATALOGUE,
        body=Withdrawal,
        answers={200: StateSaid},
    ),
)
def retire_simulation(call: BodyRequestDep, tenant: PathId, simulation_id: PathId) -> Response:
    decision = call.parse(Withdrawal)
    return json_response(call.services.catalogue.retire(call.caller, tenant, simulation_id, reason=decision.reason))

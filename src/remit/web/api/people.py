"""/v1/people: the people who can log in, and their roles."""

from datetime import timedelta

from fastapi import APIRouter
from starlette.responses import Response

from remit.contracts.base import Contract, Count, Identifier, Many, ShortText, Timestamp
from remit.core.ids import render_time
from remit.identity.models import Listed, Role
from remit.services.base.permissions import Right
from remit.web.api.request_models import Invite, PersonNamed
from remit.web.http.openapi import operation
from remit.web.http.request import BodyRequestDep, RequestDep, json_response

router = APIRouter(tags=["people"])


class PersonView(Contract):
    id: Identifier
    role: Role
    user: Identifier | None
    tenant: Identifier | None
    since: Timestamp
    last_login: Timestamp | None
    invited_by: ShortText | None
    sessions: Count
    open_links: Count


class PeoplePage(Contract):
    items: Many[PersonView]


class InvitationMade(Contract):
    """An invitation. The link works once and logs in the person who opens it. Give it only to the invited person."""

    person_id: Identifier
    role: Role
    expires_at: Timestamp
    link: ShortText


class Removed(Contract):
    person_id: Identifier


@router.get(
    "/v1/people",
    **operation(
        "listPeople", "List the people who can log in, and their roles", right=Right.SEE, answers={200: PeoplePage}
    ),
)
def list_people(call: RequestDep) -> Response:
    return json_response(PeoplePage(items=tuple(map(_view, call.services.people.list_people(call.caller)))))


@router.post(
    "/v1/people",
    **operation(
        "invitePerson",
        "Invite a person with a login link that works once",
        right=Right.INVITE,
        body=Invite,
        answers={201: InvitationMade},
    ),
)
def invite_person(call: BodyRequestDep) -> Response:
    body = call.parse(Invite)

    def invite() -> Response:
        made = call.services.people.invite(
            call.caller,
            body.name,
            body.role,
            user=body.user,
            tenant=body.tenant,
            life=timedelta(seconds=body.seconds),
        )
        url = call.request.app.state.settings.url
        return json_response(
            InvitationMade(
                person_id=made.person_id,
                role=made.role,
                expires_at=render_time(made.expires_at),
                link=f"{url}{made.path}",
            ),
            201,
        )

    return call.run_once(Right.INVITE, invite, is_secret=True)


@router.post(
    "/v1/people/remove",
    **operation(
        "removePerson",
        "Remove a person; their links and sessions end at once",
        right=Right.INVITE,
        body=PersonNamed,
        answers={200: Removed},
    ),
)
def remove_person(call: BodyRequestDep) -> Response:
    """The id is in the body, because an id from an identity provider can contain any character."""
    named = call.parse(PersonNamed)
    return json_response(Removed(person_id=call.services.people.remove(call.caller, named.name)))


def _view(listed: Listed) -> PersonView:
    return PersonView(
        id=listed.id,
        role=listed.role,
        user=listed.user,
        tenant=listed.tenant,
        since=listed.since,
        last_login=listed.last_login,
        invited_by=listed.invited_by,
        sessions=listed.sessions,
        open_links=listed.open_links,
    )

"""A stored result is returned only while its signature is valid."""

import pytest

from remit.core.errors import EnvironmentFailureError, Reason
from tests.governed_functions.customer_workspace import Place, declared, result_of


def test_a_stored_result_whose_key_was_revoked_is_not_returned(place: Place) -> None:
    setter = declared(place, "crm.set", consent="none", undo=lambda *_, **__: None)
    token = place.token("crm.set")
    old = result_of(setter.call(token=token, key="before", customer="acme", percent=5))
    place.workspace.rotate_key("executor", revoke=True)
    with pytest.raises(EnvironmentFailureError) as failed:
        setter.call(token=token, key="before", customer="acme", percent=5)
    assert failed.value.reason is Reason.EVIDENCE_INVALID
    new = result_of(setter.call(token=token, key="after", customer="acme", percent=5))
    assert new.key_id != old.key_id
    assert place.calls == ["acme", "acme"]

"""The fields that a later version adds to a signed contract do not change the digest of earlier documents."""

import pytest

from remit.contracts.base import Contract, ExtendedContract
from remit.contracts.config.config import SystemConfig

DIGEST_BEFORE_APPROVALS = "sha256:67b813771ee76fbcc5d83393663b31c8f9ae646860414e2ed6891c56037d6464"
"""The digest of the shortest configuration in the version before `approvals` existed."""


@pytest.mark.req("PV-01")
def test_a_configuration_without_approvals_keeps_the_digest_that_earlier_envelopes_bind() -> None:
    assert SystemConfig.parse(b'{"version": 1}').digest() == DIGEST_BEFORE_APPROVALS


def test_a_section_of_defaults_has_the_digest_of_no_section() -> None:
    written = b'{"version": 1, "approvals": {"allow_own": null, "allow_without_preview": false}}'

    assert SystemConfig.parse(written).digest() == DIGEST_BEFORE_APPROVALS


@pytest.mark.parametrize("setting", ['"allow_own": true', '"allow_own": false', '"allow_without_preview": true'])
def test_a_setting_of_approvals_changes_the_digest(setting: str) -> None:
    config = SystemConfig.parse(b'{"version": 1, "approvals": {%s}}' % setting.encode())

    assert config.digest() != DIGEST_BEFORE_APPROVALS
    assert SystemConfig.from_tree(config.tree()) == config


def test_every_field_that_is_left_out_exists_and_has_a_default() -> None:
    contracts = _subclasses(ExtendedContract)

    assert SystemConfig in contracts
    for contract in contracts:
        for name in contract.added_later:
            assert not contract.model_fields[name].is_required(), (contract.__name__, name)


def _subclasses(contract: type[ExtendedContract]) -> set[type[ExtendedContract]]:
    found: set[type[ExtendedContract]] = set()
    for each in contract.__subclasses__():
        assert issubclass(each, Contract)
        found |= {each, *_subclasses(each)}
    return found

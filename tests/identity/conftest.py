"""Tokens and approvals on either database. The policy key is made once: making one takes half a second."""

import shutil
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

from remit.approvals.service import ApprovalService
from remit.contracts.config.browser import Browser
from remit.core.ids import system_clock
from remit.crypto import rsa_key_files as token_key_files
from remit.crypto.keyring import create_keys
from remit.crypto.rsa_key_files import create_policy_key
from remit.fs.change_signal import ChangeSignal
from remit.identity.tokens import Tokens
from remit.plans.proposals.service import Proposals
from tests.support.store_fixtures import World, database_url, dialect, empty_store, store, store_url, world

__all__ = ["database_url", "dialect", "empty_store", "store", "store_url", "world"]


@pytest.fixture(scope="session")
def policy_key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("policy") / "keys"
    create_keys(folder, system_clock)
    # Not one of the keys that workspaces take turns with: a test that rotates would get the same one again.
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(token_key_files, "generate_private_key", generate_private_key)
        create_policy_key(folder, system_clock)
    return folder


def made_tokens(world: World, policy_key: Path) -> Tokens:
    shutil.copytree(policy_key / "policy", world.keys / "policy", dirs_exist_ok=True)
    shutil.copy2(policy_key / "policy.json", world.keys / "policy.json")
    change_signal = ChangeSignal(world.keys.parent / "approvals.bell")
    approvals = ApprovalService(lambda: world.ledger, change_signal, world.clock)
    proposals = Proposals(lambda: world.ledger, change_signal, world.clock)
    return Tokens(world.keys, Browser, lambda: world.ledger, (lambda: approvals, lambda: proposals), world.clock)


@pytest.fixture
def tokens(world: World, policy_key: Path) -> Tokens:
    return made_tokens(world, policy_key)

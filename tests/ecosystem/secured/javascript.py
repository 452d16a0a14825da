"""Node's clients do everything that they can as a user who may do all of it."""

from __future__ import annotations

import pytest

from ecosystem.javascript import PACKAGES, outcomes
from ecosystem.secured.conftest import SecuredForPrograms
from rig.servers.running import skipped_where_unavailable

_TRIED = "records, groups, administration; SCRAM over TLS, with all rights"


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(program, marks=pytest.mark.program(*package, _TRIED))
        for program, package in PACKAGES.items()
    ],
)
def test_every_step(program: str, secured: SecuredForPrograms) -> None:
    login = secured.login_of("program")
    for kind in ("TOPIC", "GROUP", "TRANSACTIONAL_ID"):
        secured.allow(login.user, kind, "*", "ALL")
    secured.allow(login.user, "BROKER", "kafka-cluster", "ALL")
    with skipped_where_unavailable():
        found = outcomes(program, secured.address, login.environment)
    assert not {step: outcome for step, outcome in found.items() if outcome != "ok"}

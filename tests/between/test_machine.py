"""`--brokers N` with a secured listener: its brokers know each other by the machine's secret."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from between.work import await_whole, prepare, use
from drumlin.broker.login.machine_secret import MECHANISM
from drumlin.peer.security.scram import ScramExchange
from drumlin.peer.security.settings import Scram
from rig.brokers.secured_brokers import SecuredMachine
from rig.data.raw import Closed, RawClient
from rig.data.secured_between import EVERY_WAY, PLAIN, Way, clients_settings
from rig.servers.certificates import Certificates

pytestmark = [pytest.mark.clients, pytest.mark.slow]

_BROKERS = 2
_FAILED, _NOT_SERVED, _NOT_NOW = 58, 33, 34


def _certificates(request: pytest.FixtureRequest, way: Way) -> Certificates | None:
    return request.getfixturevalue("certificates") if way.has_tls else None


@pytest.fixture(scope="module")
def way(request: pytest.FixtureRequest) -> Way:
    found: Way = request.param
    return found


@pytest.fixture(scope="module")
def machine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, way: Way
) -> Iterator[SecuredMachine]:
    folder = tmp_path_factory.mktemp("machine")
    server = SecuredMachine(folder, way, _BROKERS, _certificates(request, way))
    server.environment = {"DRUMLIN_LOG_RETENTION_HOURS": "24", "KAFKA_LOG_DIRS_X": "secret"}
    try:
        server.start_brokers()
        yield server
    finally:
        server.close()
    server.check_output()


_QUICK = [pytest.param(PLAIN, id=str(PLAIN))]
_DEEP = [
    pytest.param(each, marks=pytest.mark.deep, id=str(each)) for each in EVERY_WAY if each != PLAIN
]


@pytest.mark.parametrize("way", [*_QUICK, *_DEEP], indirect=True)
def test_brokers_that_are_no_users_do_all_that_brokers_do(
    request: pytest.FixtureRequest, machine: SecuredMachine, way: Way
) -> None:
    """No broker is a super user, has a password or a right."""
    security = clients_settings(way, _certificates(request, way))
    prepare(machine.port, way, _BROKERS)
    use(machine.secure_addresses, security)
    await_whole(machine.port, _BROKERS)

    machine.kill_workers([2])()
    use(machine.secure_addresses, security, 1)
    await_whole(machine.port, _BROKERS)


@pytest.mark.parametrize("way", _QUICK, indirect=True)
def test_nobody_else_can_pass_for_a_broker_of_the_machine(machine: SecuredMachine) -> None:
    with RawClient(machine.port + _BROKERS) as stranger:
        offered = stranger.ask("sasl_handshake", 1, mechanism="X")
        assert offered.error_code == _NOT_SERVED
        assert offered.mechanisms == ("PLAIN",)
    with RawClient(machine.port + _BROKERS) as stranger:
        assert stranger.ask("sasl_handshake", 1, mechanism=MECHANISM).error_code == 0
        login = ScramExchange(Scram("broker", "a guess", "SCRAM-SHA-256"))
        first = stranger.ask("sasl_authenticate", 2, auth_bytes=login.first())
        assert first.error_code == 0
        proof = login.answer(first.auth_bytes)
        assert stranger.ask("sasl_authenticate", 2, auth_bytes=proof).error_code == _FAILED
        with pytest.raises(Closed):
            stranger.ask("api_versions", 0)
    with RawClient(machine.port) as stranger:  # a listener that brokers do not use
        assert stranger.ask("sasl_handshake", 1, mechanism=MECHANISM).error_code == _NOT_NOW


@pytest.mark.parametrize("way", _QUICK, indirect=True)
def test_a_brokers_process_shows_no_settings(machine: SecuredMachine) -> None:
    """Whoever may look at processes finds no secret there: not the machine's, nor another one."""
    workers = machine.workers()
    assert len(workers) == _BROKERS
    for node_id, process in workers.items():
        *_, module, number, descriptor = process.cmdline()
        assert (module, number) == ("drumlin.broker.machine.worker", str(node_id))
        assert descriptor.isdigit()
        environment = process.environ()
        assert not [each for each in environment if each.startswith(("DRUMLIN_", "KAFKA_"))]
        assert environment.keys() <= os.environ.keys()

"""Every API before a login, and in the middle of one; and what a login is made of, after it."""

from __future__ import annotations

from typing import Any, Final

import pytest

from differential.compare import Step
from differential.normalise import Normaliser
from differential.rights.asking import Places
from differential.rights.places import Place
from differential.rights.users import NOBODY, ROOT
from drumlin.broker.apis.served import SERVED
from rig.data.messages import render
from rig.data.raw import Closed, RawClient

_Asked = tuple[str, int, dict[str, Any]]
_VERSIONS: Final[_Asked] = (
    "api_versions",
    4,
    {"client_software_name": "a", "client_software_version": "1"},
)


def _handshake(mechanism: str, version: int = 1) -> _Asked:
    return "sasl_handshake", version, {"mechanism": mechanism}


def _token(user: str, password: str) -> _Asked:
    return "sasl_authenticate", 2, {"auth_bytes": f"\0{user}\0{password}".encode()}


_RIGHT: Final = _token(NOBODY, NOBODY)
#: What is asked on one connection, one after another.
_LOGINS: Final[dict[str, list[_Asked]]] = {
    "versions": [_VERSIONS, _VERSIONS],
    "versions that are unknown": [("api_versions", 0, {}), _handshake("PLAIN")],
    "a token at once": [_RIGHT],
    "versions and a token": [_VERSIONS, _RIGHT],
    "versions after a handshake": [_handshake("PLAIN"), _VERSIONS],
    "an unknown mechanism": [_handshake("NONE"), _handshake("PLAIN")],
    "a mechanism that is not on": [_handshake("SCRAM-SHA-256"), _RIGHT],
    "no mechanism": [_handshake(""), _VERSIONS],
    "two handshakes": [_handshake("PLAIN"), _handshake("PLAIN")],
    "a login": [_VERSIONS, _handshake("PLAIN"), _RIGHT, _VERSIONS],
    "a wrong password": [_handshake("PLAIN"), _token(NOBODY, ROOT), _VERSIONS],
    "an unknown user": [_handshake("PLAIN"), _token("somebody", "x")],
    "no token": [_handshake("PLAIN"), ("sasl_authenticate", 2, {"auth_bytes": b""})],
    "a handshake after a login": [_handshake("PLAIN"), _RIGHT, _handshake("PLAIN"), _RIGHT],
    "another mechanism after a login": [_handshake("PLAIN"), _RIGHT, _handshake("NONE")],
    "a token after a login": [_handshake("PLAIN"), _RIGHT, _RIGHT],
    "another's token after a login": [_handshake("PLAIN"), _RIGHT, _token(ROOT, ROOT)],
}
#: Of the others strangers get no answer.
_FOR_STRANGERS = ("api_versions", "sasl_authenticate", "sasl_handshake")


@pytest.mark.kafka
@pytest.mark.recorded
@pytest.mark.parametrize("state", ["at once", "after a handshake"])
def test_strangers(places: Places, state: str) -> None:
    def run(_: str, place: Place) -> tuple[list[Step], Any]:
        told: list[Step] = []
        for api, (_, version) in SERVED.items():
            if api not in _FOR_STRANGERS:
                with RawClient(place.server.login_port) as client:
                    if state != "at once":
                        client.ask("sasl_handshake", 1, mechanism="PLAIN")
                    told.append(Step(api, version, _answer(client, api, version), state))
        return told, None

    places.compare(__name__, f"test_strangers[{state}]", run, f"strangers, {state}")


def _answer(client: RawClient, api: str, version: int, **fields: Any) -> Any:
    try:
        return render(client.ask(api, version, **fields))
    except Closed:
        return "(closed)"


@pytest.mark.kafka
@pytest.mark.recorded
def test_logins(places: Places) -> None:
    def run(_: str, place: Place) -> tuple[list[Step], Any]:
        told: list[Step] = []
        for about, asked in _LOGINS.items():
            names = Normaliser(place.server.login_port)
            with RawClient(place.server.login_port) as client:
                for api, version, fields in asked:
                    answer = names(_answer(client, api, version, **fields))
                    told.append(Step(api, version, answer, about))
        return told, None

    places.compare(__name__, "test_logins", run, "logins")

"""Every API before a login, and in the middle of one."""

from __future__ import annotations

from typing import Any

import pytest

from differential.compare import Step
from differential.rights.asking import Places
from differential.rights.places import Place
from drumlin.broker.apis.served import SERVED
from rig.data.messages import render
from rig.data.raw import Closed, RawClient

#: Of the others strangers get no answer.
_FOR_STRANGERS = ("api_versions", "sasl_authenticate", "sasl_handshake")


@pytest.mark.kafka
@pytest.mark.recorded
@pytest.mark.parametrize("state", ["at once", "after a handshake"])
def test_strangers(places: Places, state: str) -> None:
    def run(_: str, place: Place) -> tuple[list[Step], Any]:
        told = []
        for api, (_, version) in SERVED.items():
            if api not in _FOR_STRANGERS:
                with RawClient(place.server.login_port) as client:
                    if state != "at once":
                        client.ask("sasl_handshake", 1, mechanism="PLAIN")
                    told.append(Step(api, version, _answer(client, api, version), state))
        return told, None

    places.compare(__name__, f"test_strangers[{state}]", run, f"strangers, {state}")


def _answer(client: RawClient, api: str, version: int) -> Any:
    try:
        return render(client.ask(api, version))
    except Closed:
        return "(closed)"

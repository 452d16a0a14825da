"""Where a program is run: at one broker, at three, or at one where it logs in by SCRAM over TLS."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ecosystem.secured.conftest import SecuredForPrograms
from rig.brokers.drumlin_cluster import DrumlinCluster
from rig.brokers.drumlin_server import DrumlinServer

#: All that a program may do where it has to log in. None of them needs more.
_RIGHTS = {
    "TOPIC": ("CREATE", "DESCRIBE_CONFIGS", "READ", "WRITE"),  # quixstreams asks how topics are
    "GROUP": ("READ",),
    "TRANSACTIONAL_ID": ("WRITE",),
}
#: What a job there is called besides.
PLACES = {
    "plain": "",
    "three": "; three brokers",
    "secured": "; SCRAM over TLS, with the rights for it",
}


class Place(NamedTuple):
    """A broker, the settings of a client of librdkafka's that may do everything there, and what a
    program has in its environment."""

    address: str
    settings: Mapping[str, Any]
    environment: Mapping[str, str]

    def create(self, **partitions: int) -> None:
        admin = AdminClient(dict(self.settings))
        topics = [NewTopic(name.replace("_", "-"), count) for name, count in partitions.items()]
        for made in admin.create_topics(topics).values():
            made.result(60)


def both_ways(*told: str) -> pytest.MarkDecorator:
    """A program is run at both places: its name, version and job."""
    name, version, job = told
    places = [
        pytest.param(place, marks=pytest.mark.program(name, version, f"{job}{PLACES[place]}"))
        for place in ("plain", "secured")
    ]
    return pytest.mark.parametrize("place", places, indirect=True)


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Place:
    """By the name of one of them."""
    if request.param != "secured":
        fixture = {"plain": "drumlin", "three": "cluster"}[request.param]
        server: DrumlinServer | DrumlinCluster = request.getfixturevalue(fixture)
        return Place(server.address, {"bootstrap.servers": server.address}, {})
    secured: SecuredForPrograms = request.getfixturevalue("secured")
    login = secured.login_of("program")
    for kind, operations in _RIGHTS.items():
        secured.allow(login.user, kind, "*", *operations)
    return Place(secured.address, secured.librdkafkas(), login.environment)

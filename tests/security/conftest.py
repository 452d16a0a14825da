"""Servers with a listener for each way to be secured."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rig.brokers.drumlin_with_listeners import DrumlinWithListeners
from rig.data.secured_listeners import Secured
from rig.servers.certificates import Certificates


@pytest.fixture(scope="session")
def secured_drumlin(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[DrumlinWithListeners]:
    server = DrumlinWithListeners(tmp_path_factory.mktemp("secured-drumlin"), certificates)
    try:
        server.start()
        server.make_users_and_topics()
        yield server
    finally:
        server.close()
    server.check_output()


@pytest.fixture(scope="session", params=[pytest.param("kafka", marks=pytest.mark.deep), "drumlin"])
def secured(request: pytest.FixtureRequest) -> Secured:
    """Apache Kafka, and Drumlin, which does the same."""
    found: Secured = request.getfixturevalue(f"secured_{request.param}")
    return found

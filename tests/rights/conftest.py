"""A Drumlin with ACLs for the tests of rights."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rig.brokers.secured_drumlin import SecuredDrumlin, running_secured_drumlin


@pytest.fixture(scope="package")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredDrumlin]:
    with running_secured_drumlin(tmp_path_factory.mktemp("secured")) as server:
        yield server

"""A Drumlin with ACLs for the tests of rights."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rig.brokers.secured_drumlin import SecuredDrumlin, running_secured_drumlin


@pytest.fixture(scope="package")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredDrumlin]:
    # Batches that a test has made are from long ago: retention would delete them after a while.
    settings = {"log.retention.ms": "-1"}
    with running_secured_drumlin(tmp_path_factory.mktemp("secured"), settings) as server:
        yield server

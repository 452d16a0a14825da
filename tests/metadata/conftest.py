"""A store of each kind."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from cli.conftest import Result
from drumlin.cli import app
from drumlin.metadata.store.changes import Change
from drumlin.metadata.store.store import MetadataStore
from drumlin.metadata.zookeeper.brokers import registration_nodes
from metadata.several_brokers import Brokers, RunBrokers
from metadata.several_brokers import Scenario as BrokersScenario
from metadata.stores import Stores, embedded_store, shared_stores, stores_at
from rig.servers.zookeeper import ZooKeeper
from rig.servers.zookeeper_operator import Operator


@pytest.fixture(params=["sqlite", "shared", pytest.param("zookeeper", marks=pytest.mark.zookeeper)])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Stores:
    """Each kind of store, one after the other."""
    if request.param == "zookeeper":
        made: Stores = request.getfixturevalue("in_zookeeper")
        return made

    if request.param == "shared":
        return shared_stores(tmp_path)

    async def open_embedded() -> MetadataStore:
        return embedded_store(tmp_path)

    return Stores(open_embedded)


@pytest.fixture
def chroot(request: pytest.FixtureRequest, zookeeper: ZooKeeper) -> str:
    """Address of a chroot of the test's own, which is not there yet."""
    return f"{zookeeper.address}/{re.sub(r'[^a-zA-Z0-9]', '-', request.node.name)}"


@pytest.fixture
def in_zookeeper(chroot: str) -> Stores:
    """Stores that a broker with id 1 opens in the chroot."""
    return stores_at(chroot)


@pytest.fixture
def operator(chroot: str) -> Iterator[Operator]:
    operator = Operator(chroot)
    try:
        yield operator
    finally:
        operator.close()


@pytest.fixture
def run(in_zookeeper: Stores) -> Callable[..., None]:
    """Runs a scenario on the store, and gives it the changes that are reported."""

    def run(
        scenario: Callable[[MetadataStore, list[Change]], Coroutine[Any, Any, None]],
    ) -> None:
        async def with_changes(store: MetadataStore) -> None:
            changes: list[Change] = []
            store.on_change(changes.append)
            await scenario(store, changes)

        in_zookeeper.run(with_changes)

    return run


@pytest.fixture
def run_brokers(chroot: str) -> RunBrokers:
    """Runs a scenario on brokers in the chroot, and ends those that are left."""

    def run(scenario: BrokersScenario) -> None:
        async def with_brokers() -> None:
            brokers = Brokers(chroot)
            try:
                await scenario(brokers)
            finally:
                await brokers.close()

        asyncio.run(with_brokers())

    return run


@pytest.fixture
def nobody_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker whose id is another's gives up at once, and not when that one's session had ended.

    So sessions can be long enough not to end by themselves meanwhile.
    """
    monkeypatch.setattr(registration_nodes, "_LATE_S", float("-inf"))


class HasOption(Protocol):
    """Data of a broker, or of a Kafka."""

    @property
    def option(self) -> str:
        """What is said for them on the command line."""


Adopt = Callable[..., Result]


@pytest.fixture
def adopt(chroot: str, capsys: pytest.CaptureFixture[str]) -> Adopt:
    """Runs the command on the chroot."""

    def run(data: HasOption, *more: str) -> Result:
        capsys.readouterr()
        given = ("--data", data.option, "--zookeeper", chroot, "--yes", *more)
        code = app.main(["cluster", "adopt", *given])
        return Result(code, *capsys.readouterr())

    return run

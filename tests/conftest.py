"""Shared by all tests: a broker of each kind. Helpers that need no fixture live in `rig`.

`DRUMLIN_TEST_KAFKA=host:port` names a Kafka that runs already, which spares starting one.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from rig.apache_kafka import ApacheKafka, Unavailable
from rig.certificates import Certificates
from rig.drumlin_server import DrumlinServer
from rig.scheduling import ByServers, order
from rig.secured_kafka import SecuredKafka
from rig.skips import is_failure

# Neither tests nor programs that they start ignore an interrupt or the end of a terminal, though
# whoever runs the tests may (`nohup`, `&`, CI).
signal.signal(signal.SIGHUP, signal.SIG_DFL)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

#: Nothing is shown by waiting as long as brokers do by default.
_IMPATIENT = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "group.initial.rebalance.delay.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--record-kafka",
        action="store_true",
        help="record what Apache Kafka answers, for tests/differential",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: order(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByServers | None:
    return ByServers(config, log) if config.getoption("dist") == "loadscope" else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and isinstance(report.longrepr, tuple):
        reason = str(report.longrepr[2])
        if is_failure(reason):
            report.outcome, report.longrepr = "failed", f"nothing is to be skipped: {reason}"
    return report


@pytest.fixture(scope="session")
def drumlin_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Drumlin's own server."""
    server = DrumlinServer(tmp_path_factory.mktemp("drumlin"), _IMPATIENT)
    try:
        server.start()
        yield server.address
    finally:
        server.close()
    server.check_output()


@pytest.fixture(scope="session")
def kafka_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Apache Kafka, where it can be had."""
    running = os.environ.get("DRUMLIN_TEST_KAFKA")
    if running:
        yield running
        return
    kafka = ApacheKafka(tmp_path_factory.mktemp("kafka"), _IMPATIENT)
    try:
        kafka.start()
        yield f"127.0.0.1:{kafka.port}"
    except Unavailable as reason:
        pytest.skip(str(reason))
    finally:
        kafka.close()


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Certificates, good and bad; made by Java."""
    try:
        return Certificates(tmp_path_factory.mktemp("certificates"))
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def secured_kafka(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[SecuredKafka]:
    """Apache Kafka with TLS, logins and rights, where it can be had."""
    kafka = None
    try:
        kafka = SecuredKafka(tmp_path_factory.mktemp("secured-kafka"), certificates)
        kafka.start()
        kafka.make_topics()
        yield kafka
    except Unavailable as reason:
        pytest.skip(str(reason))
    finally:
        if kafka is not None:
            kafka.close()

"""Shared by all tests: a broker of each kind. Helpers that need no fixture live in `rig`.

`DRUMLIN_TEST_KAFKA=host:port` names a Kafka that runs already, which spares starting one.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from hypothesis import settings

from rig import depth
from rig.brokers.drumlin_server import running_server
from rig.brokers.drumlin_with_listeners import DrumlinWithListeners
from rig.brokers.old_records import KEPT
from rig.brokers.process import BrokerProcess
from rig.data.secured_listeners import Secured
from rig.depth import IS_DEEP
from rig.scheduling import ByServers, order
from rig.servers.apache_kafka import ApacheKafka, kafka_classpath
from rig.servers.certificates import Certificates
from rig.servers.running import running, skipped_where_unavailable
from rig.servers.secured_kafka import SecuredKafka
from rig.servers.zookeeper import ZooKeeper, running_zookeeper
from rig.skips import is_failure

# Neither tests nor programs that they start ignore an interrupt or the end of a terminal, though
# what runs the tests may (`nohup`, `&`, CI).
signal.signal(signal.SIGHUP, signal.SIG_DFL)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# At each commit the same examples, so that a failure is the commit's; script/assure looks further.
settings.register_profile("commit", derandomize=True, deadline=None, database=None, max_examples=40)
settings.register_profile("deep", deadline=None, print_blob=True)
settings.load_profile("deep" if IS_DEEP else "commit")

#: Nothing is shown by waiting as long as brokers do by default.
_IMPATIENT = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "group.initial.rebalance.delay.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
}

#: Layers whose tests leave no socket and no file to the garbage collector: one that is found is
#: an error, if perhaps of another test of its file.
_TIDY = tuple(
    f"tests/{layer}/"
    for layer in (
        *("records", "wire", "config", "coordination"),
        *("storage", "compaction", "metadata", "peer"),
    )
)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Servers that tests start are not to see what is said to the tests: they would warn of it."""
    if not session.config.getoption("numprocesses", None):  # else those who run tests inherit it
        os.environ.pop("DRUMLIN_TEST_DEEP", None)
        os.environ.pop("DRUMLIN_TEST_REQUIRE", None)


def pytest_configure(config: pytest.Config) -> None:
    """Kernels that were changed are compiled before any test runs, and by one process. Servers are
    forked from here on.
    """
    BrokerProcess.is_program = False
    is_worker = hasattr(config, "workerinput")
    if not is_worker and importlib.util.find_spec("drumlin.records.kernels.toolchain"):
        command = [sys.executable, "-m", "drumlin.records.kernels.toolchain"]
        subprocess.run(command, check=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--record-kafka",
        action="store_true",
        help="record what Apache Kafka answers, for tests/differential",
    )
    parser.addoption(
        "--record-own",
        action="store_true",
        help="record what Drumlin answers where it may differ, for tests/differential, and how long"
        " its ways are, for docs/architecture.md",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    depth.leave_versions_between(items)
    items.sort(key=lambda item: order(item.nodeid))
    for item in items:
        if item.nodeid.startswith(_TIDY):
            for kind in ("ResourceWarning", "pytest.PytestUnraisableExceptionWarning"):
                item.add_marker(pytest.mark.filterwarnings(f"error::{kind}"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByServers | None:
    return ByServers(config, log) if config.getoption("dist") == "loadscope" else None


def _fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.skipped and isinstance(report.longrepr, tuple):
        reason = str(report.longrepr[2])
        if is_failure(reason):
            report.outcome, report.longrepr = "failed", f"nothing is to be skipped: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _fail_if_skipped(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield  # of a module that skips itself when it is imported
    _fail_if_skipped(report)
    return report


_sizes: dict[str, list[int]] = {}


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of xdist tells which numbers its tests have asked for."""
    output = getattr(session.config, "workeroutput", None)
    if output is None:
        _sizes.update(depth.asked)
    else:
        output["sizes"] = depth.asked


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """What is collected stays to the end: the garbage collector need not look at it each time."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.enable()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    _sizes.update(getattr(node, "workeroutput", {}).get("sizes", {}))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """For script/assure: what was run, folder by folder."""
    if not IS_DEEP:
        return
    counts: Counter[tuple[str, str]] = Counter()
    seconds: Counter[str] = Counter()
    for outcome in ("passed", "failed", "skipped", "error"):
        for report in terminalreporter.stats.get(outcome, ()):
            folder = "/".join(report.nodeid.split("::")[0].split("/")[:-1])
            counts[folder, outcome] += 1
            seconds[folder] += getattr(report, "duration", 0)  # a file that skips itself has none
    terminalreporter.section("what was run")
    for folder in sorted(seconds):
        shown = ", ".join(f"{count} {each}" for (at, each), count in counts.items() if at == folder)
        terminalreporter.write_line(f"{folder}: {shown}; {seconds[folder]:.0f} s")
    terminalreporter.section("with how many seeds, examples, records or steps")
    for file, numbers in sorted(_sizes.items()):
        terminalreporter.write_line(f"{file}: {', '.join(map(str, numbers))}")


@pytest.fixture(scope="session")
def drumlin_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Drumlin's own server."""
    with running_server(tmp_path_factory.mktemp("drumlin"), _IMPATIENT | KEPT) as server:
        yield server.address


@pytest.fixture(scope="session")
def kafka_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Apache Kafka, where it can be had."""
    already_there = os.environ.get("DRUMLIN_TEST_KAFKA")
    if already_there:
        yield already_there
        return
    with running(ApacheKafka(tmp_path_factory.mktemp("kafka"), _IMPATIENT | KEPT)) as kafka:
        yield f"127.0.0.1:{kafka.port}"


@pytest.fixture(scope="session")
def kafka_classes() -> str:
    """The class path of Apache Kafka's own classes and tools, where it can be had."""
    with skipped_where_unavailable():
        return kafka_classpath()


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Certificates, good and bad; made by Java."""
    with skipped_where_unavailable():
        return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def secured_kafka(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[SecuredKafka]:
    """Apache Kafka with TLS, logins and rights, where it can be had."""
    with skipped_where_unavailable():
        made = SecuredKafka(tmp_path_factory.mktemp("secured-kafka"), certificates)
    with running(made) as kafka:
        kafka.make_topics()
        yield kafka


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


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    with running_zookeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server

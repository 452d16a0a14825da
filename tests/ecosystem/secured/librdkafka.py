"""librdkafka's own tests: of its admin client, of what is not allowed, and of logins."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from ecosystem.installed import librdkafka_tests
from ecosystem.secured.conftest import SecuredForPrograms, password
from rig.brokers.drumlin_server import DrumlinServer, running_server
from rig.jvm.jars import jar_folder, java
from rig.jvm.java import SHORT_LIVED_JVM
from rig.servers.running import skipped_where_unavailable

_VERSION = "2.15.0"
_WAIT_S = 900.0
_TRIES = 3
_NAMES = {
    "0081": "0081_admin",
    "0109": "0109_auto_create_topics",
    "0115": "0115_producer_auth",
    "0119": "0119_consumer_auth",
    "0135": "0135_sasl_credentials",
    "0142": "0142_reauthentication",
}
#: As librdkafka configures the brokers that it is tested with.
_SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "group.initial.rebalance.delay.ms": "0",
    "num.partitions": "4",
    "offsets.topic.num.partitions": "4",
}
_ACLS = '#!/bin/sh\nexec {java} -cp "{jars}/*" org.apache.kafka.tools.AclCommand "$@"\n'
Record = Callable[[str, object], None]


@pytest.fixture
def with_acls(tmp_path: Path) -> Iterator[DrumlinServer]:
    with running_server(tmp_path, _SETTINGS) as server:
        yield server
    server.check_output()


def run(
    numbers: Sequence[str], address: str, settings: dict[str, str], folder: Path
) -> dict[str, str]:
    """What came of each test: PASSED, FAILED or SKIPPED."""
    with skipped_where_unavailable():
        tests = librdkafka_tests(_VERSION)
        jars = jar_folder("kafka-jars")
    command = folder / "kafka" / "bin" / "kafka-acls.sh"
    command.parent.mkdir(parents=True)
    command.write_text(_ACLS.format(java=f"{java()} {SHORT_LIVED_JVM}", jars=jars))
    command.chmod(0o755)
    config = folder / "test.conf"
    given = {"bootstrap.servers": address, **settings}
    config.write_text("".join(f"{key}={value}\n" for key, value in given.items()))
    environment = {
        "BROKERS": address,
        "CI": "true",  # it waits for longer
        "KAFKA_PATH": str(command.parents[1]),
        "LD_LIBRARY_PATH": ":".join(str(tests.with_name(each)) for each in ("src", "src-cpp")),
        "RDKAFKA_TEST_CONF": str(config),
        "TEST_KAFKA_VERSION": "4.3.0",
    }
    found: dict[str, str] = {}
    # The admin client's test waits for static members exactly as long as their sessions last, and
    # then deletes their group: it may be too early, whatever the broker.
    for number in (each for each in numbers for _ in range(_TRIES)):
        if any(name.startswith(number) and came != "FAILED" for name, came in found.items()):
            continue
        said = folder / f"{number}.out"
        with said.open("wb") as output:
            subprocess.run(
                ["./test-runner", "-p1", "-Q"],
                cwd=tests,
                env={**os.environ, **environment, "TESTS": number},
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=_WAIT_S,
                check=False,
            )
        text = re.sub(r"\x1b\[[0-9;]*m", "", said.read_text(errors="replace"))
        results = re.findall(rf"\|\s+({number}\w+)\s+\|\s+(PASSED|FAILED|SKIPPED)", text)
        found |= dict(results) or {_NAMES[number]: "FAILED"}  # which may end it before its table
    return found


@pytest.mark.program("librdkafka", _VERSION, "its own tests of ACLs: admin client, auto creation")
def test_acls(with_acls: DrumlinServer, tmp_path: Path, record_property: Record) -> None:
    plain = {"security.protocol": "plaintext"}
    numbers = ("0081", "0109", "0115", "0119")
    found = run(numbers, with_acls.address, plain, tmp_path)
    record_property("found", ", ".join(map(" ".join, found.items())))
    assert found == {_NAMES[each]: "PASSED" for each in numbers}


@pytest.mark.program("librdkafka", _VERSION, "its own tests with a login by SCRAM over TLS")
def test_logins(open_to_all: SecuredForPrograms, tmp_path: Path, record_property: Record) -> None:
    open_to_all.add_user("tester")
    login = {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": open_to_all.ca,
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "tester",
        "sasl.password": password("tester"),
    }
    numbers = ("0081", "0135", "0142")
    found = run(numbers, open_to_all.address, login, tmp_path)
    record_property("found", ", ".join(map(" ".join, found.items())))
    assert found == {_NAMES[each]: "PASSED" for each in numbers}

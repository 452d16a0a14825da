"""rsyslog: lines that come over TCP go into a topic."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic

from rig.brokers.drumlin_server import DrumlinServer
from rig.ports import free_ports
from rig.waiting import wait_until

_LINES = 2000
_WAIT_S = 900.0
_CONFIGURATION = """
global(workDirectory="{folder}")
module(load="imtcp")
module(load="omkafka")
template(name="line" type="string" string="%msg%")
input(type="imtcp" address="127.0.0.1" port="{port}")
action(type="omkafka" broker="{address}" topic="rsyslog" template="line"
       confParam=["compression.codec=snappy"])
"""


@pytest.mark.program("rsyslog", "of Debian's", "omkafka, snappy: 2,000 lines over TCP")
def test_rsyslog(
    drumlin: DrumlinServer, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    program = shutil.which("rsyslogd")
    if program is None:
        pytest.skip("rsyslog is not installed")
    version = subprocess.run([program, "-v"], capture_output=True, text=True, check=True).stdout
    record_property("found", version.split(" (")[0])
    admin = AdminClient({"bootstrap.servers": drumlin.address})
    admin.create_topics([NewTopic("rsyslog", 3)])["rsyslog"].result(60)
    port, configuration = free_ports(1)[0], tmp_path / "rsyslog.conf"
    told = {"folder": tmp_path, "port": port, "address": drumlin.address}
    configuration.write_text(_CONFIGURATION.format(**told))
    command = [program, "-n", "-f", str(configuration), "-i", str(tmp_path / "pid")]
    with (tmp_path / "output").open("wb") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said)

    def connected() -> socket.socket | None:
        assert process.poll() is None, (tmp_path / "output").read_text()
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=60)
        except OSError:
            return None

    try:
        with wait_until(connected, "rsyslog", _WAIT_S) as connection:
            lines = (f"<13>Nov 28 12:00:00 host test: line {n}\n" for n in range(_LINES))
            connection.sendall("".join(lines).encode())
            assert received(drumlin.address) == {f"line {n}" for n in range(_LINES)}
    finally:
        process.terminate()
        process.wait(60)


def received(address: str) -> set[str]:
    """As many lines as were sent, once each."""
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "rsyslog", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["rsyslog"])
    found = []
    while len(found) < _LINES:
        message = consumer.poll(_WAIT_S)
        assert message is not None, f"{len(found)} of {_LINES}"
        assert message.error() is None, message.error()
        found.append(message.value().decode().strip())
    consumer.close()
    assert len(found) == len(set(found)), "some came twice"
    return set(found)

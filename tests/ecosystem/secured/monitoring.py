"""Monitoring programs log in by SCRAM over TLS, with no more rights than they need."""

from __future__ import annotations

from pathlib import Path

import pytest

from ecosystem.monitors.lag import MONITORS, check
from ecosystem.monitors.programs import Monitor
from ecosystem.secured.conftest import SecuredForPrograms


@pytest.mark.parametrize(
    "monitor",
    [
        pytest.param(each, marks=pytest.mark.program(name, version, f"{tried}; SCRAM over TLS"))
        for each, (name, version, tried) in MONITORS.items()
    ],
)
def test_lag(monitor: type[Monitor], secured: SecuredForPrograms, tmp_path: Path) -> None:
    login = secured.login_of("watcher")
    secured.allow("watcher", "TOPIC", "*", "DESCRIBE")
    secured.allow("watcher", "GROUP", "*", "DESCRIBE")
    secured.allow("watcher", "BROKER", "kafka-cluster", "DESCRIBE")
    if monitor.reads_offsets_topic:
        secured.allow("watcher", "TOPIC", "__consumer_offsets", "READ")
    watching = monitor(tmp_path, secured.address, login)
    check(watching, secured.librdkafkas(), ["--config", str(secured.client_properties)])

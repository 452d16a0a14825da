"""What the doctor says when its user may see little."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.conftest import Run
from rig.brokers.secure_server import SecureServer

pytestmark = [pytest.mark.slow, pytest.mark.deep]


def test_what_it_may_not_see(run: Run, tmp_path: Path) -> None:
    server = SecureServer(tmp_path)
    try:
        server.start()
        admin = str(server.client_properties)
        password = tmp_path / "password"
        password.write_text("the-password-of-alice\n")
        alice = ("users", "add", "alice", "--password-file", str(password), "--config", admin)
        assert run(*alice).code == 0
        settings = server.client_properties.read_text()
        (login,) = (each for each in settings.splitlines() if each.startswith("sasl.jaas.config"))
        own = login.partition("username=")[0] + 'username="alice" password="the-password-of-alice";'
        file = tmp_path / "alice.properties"
        file.write_text(settings.replace(login, own))
        result = run("doctor", "--config", str(file), "--seconds", "0", "--json")
        notes = {each["subject"] for each in result.json if each["check"] == "not-looked-at"}
        assert notes == {"configuration of broker 1", "log dirs of brokers 1"}
        assert "no-topics" in {each["check"] for each in result.json}
        whole = run("doctor", "--config", admin, "--seconds", "0", "--json")
        assert "not-looked-at" not in {each["check"] for each in whole.json}
        data = run("doctor", "--data", str(server.data), "--seconds", "0", "--json")
        assert "certificate-end" not in {each["check"] for each in data.json}
        refused = run("top", "--once", "--interval", "0", "--json", "--config", str(file))
        assert refused.json["topics"] == []
    finally:
        server.close()

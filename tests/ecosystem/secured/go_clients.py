"""Clients in Go: sarama by SCRAM over TLS, and franz-go's own tests of logins and over TLS."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from ecosystem.go_clients import failed, report, run_tests
from ecosystem.installed import go_compiled, go_tests
from ecosystem.secured.conftest import SecuredForPrograms, allow, password
from rig.brokers.drumlin_with_listeners import DrumlinWithListeners
from rig.data.secured_listeners import SCRAM_PASSWORD
from rig.servers.certificates import Certificates
from rig.servers.running import skipped_where_unavailable

_SARAMA, _SCRAM = "1.61.1", "1.2.0"
_FRANZ_GO = "1.22.3"
_WAIT_S = 120.0
Record = Callable[[str, object], None]


@pytest.mark.program("sarama", _SARAMA, "both SCRAMs over TLS; a wrong password")
def test_sarama(secured: SecuredForPrograms) -> None:
    with skipped_where_unavailable():
        modules = (f"github.com/IBM/sarama@v{_SARAMA}", f"github.com/xdg-go/scram@v{_SCRAM}")
        program = go_compiled("sarama_login", *modules)
    secured.add_user("alice")
    secured.allow("alice", "TOPIC", "copied", "CREATE", "READ", "WRITE")
    secured.allow("alice", "GROUP", "sarama-*", "READ")

    def run(mechanism: str, told: str) -> str:
        told_of_them = ["copied", f"sarama-{mechanism}", "1000"]
        done = subprocess.run(
            [str(program), secured.address, secured.ca, mechanism, "alice", told, *told_of_them],
            capture_output=True,
            text=True,
            timeout=_WAIT_S,
            check=False,
        )
        return done.stdout

    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        assert run(mechanism, password("alice")) == "read 1000\n", mechanism
    assert "Authentication failed" in run("SCRAM-SHA-512", "wrong")


@pytest.mark.program("franz-go", _FRANZ_GO, "its own tests: by certificates, SCRAM, OAUTHBEARER")
def test_franz_go(
    listeners: DrumlinWithListeners,
    certificates: Certificates,
    tmp_path: Path,
    record_property: Record,
) -> None:
    with skipped_where_unavailable():
        tests = go_tests("github.com/twmb/franz-go", f"v{_FRANZ_GO}", "pkg/kgo")
    administrator = AdminClient({"bootstrap.servers": listeners.address})
    for kind in ("TOPIC", "GROUP", "TRANSACTIONAL_ID"):
        allow(administrator, "CN=client", kind, "*", "ALL")
    allow(administrator, "CN=client", "BROKER", "kafka-cluster", "ALL")
    files = {"ca": "ca.crt", "cert": "client.crt", "key": "client.key"}
    environment = {
        "KGO_SEEDS": listeners.addresses["mutual"],
        "KGO_TEST_TLS": ",".join(
            f"{what}:{certificates.path(file)}" for what, file in files.items()
        ),
        "KGO_TEST_SCRAM": f"alice:{SCRAM_PASSWORD}:512",
        "KGO_TEST_SCRAM_SEEDS": listeners.addresses["login"],
        "KGO_TEST_OAUTH_SEEDS": listeners.addresses["login"],
        "KGO_TEST_RF": "1",
        "KGO_TEST_RECORDS": "50000",
        "KGO_LOG_LEVEL": "none",
    }
    # It has a dialer of its own, which no client takes beside one for TLS.
    others = ["-test.skip=^TestIssue769$"]
    found = run_tests(tests, others, environment, tmp_path / "franz-go", 2700)
    report(found, record_property)
    assert not failed(found)
    assert found["TestSCRAMAuth"] == found["TestSCRAMAuthBadCredentials"] == "PASS"
    assert found["TestOAuthAuth"] == "PASS"

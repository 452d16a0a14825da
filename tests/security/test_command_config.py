"""`--command-config`: commands on a secured cluster, and files that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from drumlin.cli import app
from rig.data.secured_listeners import PASSWORD, Secured
from rig.servers.certificates import Certificates

QUOTED = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def command_config(folder: Path, **properties: str) -> str:
    """A file, written as Java's are: with escapes of its own."""
    path = folder / "client.properties"
    lines = [f"{name.replace('_', '.')}={value}\n" for name, value in properties.items()]
    path.write_text("".join(each.replace("\\", "\\\\") for each in lines))
    return str(path)


@pytest.mark.kafka
def test_commands_log_in_as_the_file_says(
    secured: Secured,
    certificates: Certificates,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = command_config(
        tmp_path,
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
        sasl_jaas_config=f'{MODULE} required username="alice" password="{QUOTED}";',
        ssl_truststore_type="PEM",
        ssl_truststore_location=certificates.path("ca.crt"),
        client_id="alices",
        group_id="unused",
    )
    where = ["--bootstrap", secured.addresses["tlslogin"]]
    for command, answer in (
        (["topics", "list"], "locked"),
        (["topics", "describe", "open"], "open"),
        (["configs", "describe", "topic", "open"], ""),
        (["groups", "list"], ""),
        (["consume", "open", "-n", "2"], "one"),
    ):
        code = app.main([*command, *where, "--command-config", path])
        out, err = capsys.readouterr()
        assert answer in out
        assert code == 0 or "authorization failed" in err or "no right to it" in err, err
        assert PASSWORD not in out + err
    monkeypatch.setenv("DRUMLIN_COMMAND_CONFIG", path)
    assert app.main(["topics", "list", *where]) == 0
    assert "hidden" not in capsys.readouterr().out
    assert app.main(["consume", "locked", *where]) == 1
    err = capsys.readouterr().err
    lacking = "this user has no right to it, as it takes READ on the topic"
    assert err == (
        f"drumlin: fetch of topic 'locked' partition 0: {lacking} (topic_authorization_failed)\n"
    )


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ({"security_protocol": "TLS"}, "option 'security.protocol': expected one of"),
        ({"ssl_truststore_location": "/ca.pem"}, "option 'ssl.truststore.location'"),
        ({"request_timeout_ms": "soon"}, "option 'request.timeout.ms'"),
        ({"security_protocol": "SSL", "ssl_truststore_location": "/no.pem"}, "No such file"),
    ],
)
def test_a_file_that_cannot_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], properties: dict[str, str], why: str
) -> None:
    path = command_config(tmp_path, **properties)
    assert app.main(["topics", "list", "-b", "127.0.0.1:1", "--command-config", path]) == 1
    assert why in capsys.readouterr().err
    missing = str(tmp_path / "none")
    assert app.main(["topics", "list", "-b", "127.0.0.1:1", "--command-config", missing]) == 1
    assert f"{missing}: No such file" in capsys.readouterr().err


def test_what_has_no_effect_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = command_config(tmp_path, group_id="g", acks="all")
    for _ in range(2):
        app.main(["topics", "list", "-b", "127.0.0.1:1", "--command-config", path])
    assert capsys.readouterr().err.count("without effect here: acks, group.id") == 1

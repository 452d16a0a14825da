"""Apache Kafka's own tools make a user, give rights, and work with a login."""

from __future__ import annotations

from pathlib import Path

import pytest

from rig.data.secured_listeners import Secured
from rig.servers.apache_kafka import run_tool
from rig.servers.certificates import Certificates

pytestmark = [pytest.mark.kafka, pytest.mark.deep, pytest.mark.usefixtures("kafka_classes")]

_TOOLS = "org.apache.kafka.tools"
_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


def test_a_user_of_kafkas_tools(
    secured: Secured, certificates: Certificates, tmp_path: Path
) -> None:
    own = ("--bootstrap-server", f"127.0.0.1:{secured.port}")
    carol = ("--entity-type", "users", "--entity-name", "carol")

    def configs(*arguments: str) -> str:
        return run_tool("kafka.admin.ConfigCommand", *own, *arguments, *carol)

    configs("--alter", "--add-config", "SCRAM-SHA-512=[iterations=8192,password=it's carol's]")
    assert "SCRAM-SHA-512=iterations=8192" in configs("--describe")
    run_tool(f"{_TOOLS}.TopicCommand", *own, "--create", "--topic", "carols", "--partitions", "2")
    added = ("--add", "--allow-principal", "User:carol", "--topic", "carols")
    run_tool(f"{_TOOLS}.AclCommand", *own, *added, "--producer")
    run_tool(f"{_TOOLS}.AclCommand", *own, *added, "--consumer", "--group", "carols")
    listed = run_tool(f"{_TOOLS}.AclCommand", *own, "--list", "--principal", "User:carol")
    for operation in ("READ", "WRITE", "DESCRIBE", "CREATE"):
        assert f"operation={operation}, permissionType=ALLOW" in listed, operation

    file = tmp_path / "carol.properties"
    file.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
        f'sasl.jaas.config={_MODULE} required username="carol" password="it\'s carol\'s";\n'
        f"ssl.truststore.type=PEM\nssl.truststore.location={certificates.path('ca.crt')}\n"
    )
    login = ("--bootstrap-server", secured.addresses["tlslogin"], "--command-config", str(file))
    written = ("--num-records", "500", "--record-size", "100", "--throughput", "-1")
    said = run_tool(f"{_TOOLS}.ProducerPerformance", *login, "--topic", "carols", *written)
    assert "500 records sent" in said
    read = ("--num-records", "500", "--group", "carols", "--timeout", "60000")
    said = run_tool(f"{_TOOLS}.ConsumerPerformance", *login, "--topic", "carols", *read)
    assert said.splitlines()[-1].split(", ")[4] == "500", said
    assert run_tool(f"{_TOOLS}.TopicCommand", *login, "--list").split() == ["carols", "open"]
    with pytest.raises(AssertionError, match="ClusterAuthorizationException"):
        run_tool(f"{_TOOLS}.AclCommand", *login, "--list")

    configs("--alter", "--delete-config", "SCRAM-SHA-512")
    with pytest.raises(AssertionError, match="SaslAuthenticationException"):
        run_tool(f"{_TOOLS}.TopicCommand", *login, "--list")

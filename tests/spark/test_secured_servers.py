"""Spark on secured servers: as users have their files, with stores and with tokens."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from drumlin.cli import app
from drumlin.security import read_properties
from drumlin.spark import snapshot
from drumlin.state import processor
from rig.brokers.drumlin_with_listeners import DrumlinWithListeners
from rig.brokers.secure_server import SecureServer
from rig.documents.task_rights import listed, placed
from rig.servers.certificates import Certificates
from rig.servers.rights import CREATE, DESCRIBE_CONFIGS, GROUP, PREFIXED, READ, TOPIC, WRITE, Right

pytestmark = [pytest.mark.spark, pytest.mark.deep]

_OPERATIONS = {READ: "read", WRITE: "write", CREATE: "create", DESCRIBE_CONFIGS: "describe-configs"}
_KINDS = {TOPIC: "--topic", GROUP: "--group"}


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureServer]:
    server = SecureServer(tmp_path_factory.mktemp("secure"))
    try:
        server.start()
        yield server
    finally:
        server.close()
    server.check_output()


def _as_alice(server: SecureServer, folder: Path, rights: set[Right]) -> Path:
    """Her file, as the documents tell to make it: a copy, with her name and password."""
    config = ["--config", str(server.client_properties)]
    password = folder / "password"
    password.write_text("her-password")
    assert app.main(["users", "add", "alice", "--password-file", str(password), *config]) == 0
    for each in rights:
        kind = _KINDS.get(each.kind, "--transactional-id")
        wanted = ["-o", _OPERATIONS[each.operation], kind, each.name]
        wanted += ["--prefix"] if each.pattern == PREFIXED else []
        assert app.main(["acls", "add", "-u", "alice", *wanted, *config]) == 0
    text = server.client_properties.read_text()
    of_admin = text.partition('password="')[2].partition('"')[0]
    file = folder / "alice.properties"
    file.write_text(
        text.replace('username="admin"', 'username="alice"').replace(of_admin, "her-password")
    )
    return file


def test_alice_writes_reads_and_keeps_states_on_a_server_that_is_secure_by_one_word(
    spark: SparkSession, secure: SecureServer, tmp_path: Path
) -> None:
    names = {"IN": "orders", "OUT": "orders", "DECISIONS": "drumlin-sinks", "GROUP": "counting"}
    names |= {"STATE": "counts", "CHANGELOG": "counting-counts-changelog"}
    tasks = ("Spark's sink", "read a topic", "keyed state")
    rights = {placed(right, names) for task in tasks for right in listed(task)}
    config = ["--config", str(secure.client_properties)]
    make = ["topics", "create", "orders", "--partitions", "2", "-c", "cleanup.policy=compact"]
    assert app.main([*make, "--command-config", config[1]]) == 0
    properties = dict(read_properties(_as_alice(secure, tmp_path, rights)))
    options = {f"kafka.{name}": text for name, text in properties.items()}
    options["kafka.bootstrap.servers"] = secure.address

    rows = spark.range(0, 10, 1, 2).selectExpr("string(id) AS key", "string(id) AS value")
    rows.write.format("drumlin").options(**options, topic="orders").mode("append").save()
    read = spark.read.format("drumlin").options(**options, subscribe="orders").load()
    assert sorted(int(row.value) for row in read.collect()) == list(range(10))
    apart = {name: text for name, text in options.items() if name != "kafka.bootstrap.servers"}
    assert snapshot(spark, "orders", bootstrap=secure.address, **apart).count() == 10
    with processor(
        "orders", group="counting", state="counts", bootstrap=secure.address, security=properties
    ) as counts:
        seen = 0
        for batch in counts:
            seen += batch.num_rows
            for key in batch.column("key").to_pylist():
                counts.state[key] = b"1"
            if seen == 10:
                break
    done = app.main(["state", "dump", "counting", "counts", *config, "-b", secure.address])
    assert done == 0


_PROVIDER = """
import base64, json, time

def given(subject):
    claims = {"sub": subject, "iat": time.time() - 60, "exp": time.time() + 3600}
    texts = [json.dumps(each).encode() for each in ({"alg": "none"}, claims)]
    parts = [base64.urlsafe_b64encode(each).decode().rstrip("=") for each in texts]
    return ".".join(parts) + "."
"""


@pytest.mark.kafka
def test_executors_call_a_provider_by_its_name_and_read_a_store(
    spark: SparkSession,
    secured_drumlin: DrumlinWithListeners,
    certificates: Certificates,
    tmp_path: Path,
) -> None:
    module = tmp_path / "tokens_of_executors.py"
    module.write_text(_PROVIDER)
    spark.sparkContext.addPyFile(str(module))
    trusted = tmp_path / "trust.jks"  # in name only, as keytool's stores are today
    imported = f"keytool -importcert -noprompt -alias ca -file {certificates.path('ca.crt')}"
    made = f"{imported} -keystore {trusted} -storepass hunter2 -storetype PKCS12"
    subprocess.run(made.split(), check=True, capture_output=True, timeout=60)
    options = {
        "kafka.bootstrap.servers": secured_drumlin.addresses["tlslogin"],
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.oauthbearer.token.provider": "tokens_of_executors:given",
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer."
        'OAuthBearerLoginModule required subject="alice";',
        "kafka.ssl.truststore.location": str(trusted),
        "kafka.ssl.truststore.password": "hunter2",
        "strictOptions": "true",
    }
    reader = spark.read.format("drumlin").options(**options, subscribe="open")
    before = reader.load().count()
    rows = spark.range(0, 4, 1, 2).selectExpr("string(id) AS value")
    written = rows.write.format("drumlin").options(**options, topic="open")
    written.option("delivery", "at-least-once").mode("append").save()
    assert reader.load().count() == before + 4
    function = {**options, "kafka.sasl.oauthbearer.token.provider": len}
    with pytest.raises(Exception, match=r"token.provider': .*'module:function'") as caught:
        spark.read.format("drumlin").options(**function, subscribe="open").load().count()
    assert "hunter2" not in str(caught.value)

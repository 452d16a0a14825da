"""The programs of examples/pipelines as commands, one after the other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from drumlin.client.client import Client
from drumlin.security import SecurityOptionError
from examples.conftest import PIPELINES, NewTopic
from rig.brokers.drumlin_server import running_server
from rig.data.secured_listeners import SCRAM_PASSWORD
from rig.jvm.java import spark_environment
from rig.servers.certificates import Certificates
from rig.servers.secured_kafka import SecuredKafka
from rig.waiting import wait_until


def _run(program: str, *arguments: str, typed: str = "") -> str:
    done = subprocess.run(
        [sys.executable, str(PIPELINES / f"{program}.py"), *arguments],
        input=typed,
        env={**os.environ, **spark_environment()},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_the_service_of_accounts(tmp_path: Path) -> None:
    """Beside a broker of its own: its topics have names that others use, too."""
    with running_server(tmp_path) as server:
        arguments = ("--brokers", server.address, "--disk", str(tmp_path / "accounts.db"))
        said = _run("accounts", *arguments, typed="deposit ada 500\nwithdraw ada 501\n")
        assert said == "ada has 500 after 1 events\nrefused: ada has 500 only\n"
        (tmp_path / "accounts.db").unlink()
        said = _run("accounts", *arguments, typed="withdraw ada 120\n")
        assert said == "ada has 380 after 2 events\n"


def _secured(folder: Path, **more: str) -> Path:
    """A file as Kafka's tools take it with `--command-config`."""
    properties = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            'username="alice" password="secret";'
        ),
        "request.timeout.ms": "5000",
    }
    lines = (f"{name}={text}\n" for name, text in (properties | more).items())
    path = folder / "client.properties"
    path.write_text("".join(lines))
    return path


def test_a_secured_cluster_is_named_by_a_file(
    pipeline: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    session = pipeline("session")

    def named(path: Path) -> Any:
        line = ["--brokers", "broker:9093", "--command-config", str(path)]
        return session.cluster_of(session.parser("A program.").parse_args(line))

    cluster = named(_secured(tmp_path))
    assert cluster.security.keys() == {"security.protocol", "sasl.mechanism", "sasl.jaas.config"}
    assert cluster.arguments["bootstrap"] == "broker:9093"
    assert cluster.arguments["kafka.security.protocol"] == "SASL_SSL"
    with pytest.raises(SecurityOptionError, match=r"ssl\.truststore\.locatoin"):
        named(_secured(tmp_path, **{"ssl.truststore.locatoin": "ca.pem"}))


@pytest.mark.deep
@pytest.mark.spark
@pytest.mark.kafka
def test_a_load_from_a_secured_cluster(
    secured_kafka: SecuredKafka, certificates: Certificates, tmp_path: Path
) -> None:
    config = _secured(
        tmp_path,
        **{
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required "
                f"username=alice password='{SCRAM_PASSWORD}';"
            ),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": certificates.path("ca.crt"),
        },
    )
    arguments = {"topic": "open", "lake": tmp_path / "lake"}
    where = ("--brokers", secured_kafka.addresses["tlslogin"], "--command-config", str(config))
    _run("lake", *where, *(f"--{name}={value}" for name, value in arguments.items()))
    assert pq.read_table(tmp_path / "lake")["value"].to_pylist() == [b"one", b"two"]


@pytest.mark.deep
@pytest.mark.spark
def test_the_pipelines(
    client: Client, new_topic: NewTopic, drumlin_address: str, tmp_path: Path
) -> None:
    payments, totals, orders = new_topic(), new_topic(), new_topic()
    rows = {"key": ["a", "b", "a"], "value": ['{"amount": 1}', '{"amount": 2}', '{"amount": 3}']}
    client.append(pa.table(rows), payments)

    def run(program: str, **arguments: str) -> None:
        given = {"brokers": drumlin_address, "topic": payments, **arguments}
        _run(program, *(f"--{name}={value}" for name, value in given.items()))

    run("lake", lake=str(tmp_path / "lake"))
    assert pq.read_table(tmp_path / "lake").num_rows == 3
    run("delta_table", table=str(tmp_path / "table"))
    assert DeltaTable(tmp_path / "table").to_pyarrow_table().num_rows == 2
    run("totals", target=totals, refused=new_topic(), checkpoint=str(tmp_path / "totals"))
    written = client.read(totals, isolation="read_committed", decode="utf8")["value"].to_pylist()
    assert sorted(written) == ['{"cents":2,"payments":1}', '{"cents":4,"payments":2}']
    run("orders", customers=totals, target=orders, checkpoint=str(tmp_path / "orders"))
    assert client.read(orders, isolation="read_committed").num_rows == 3


@pytest.mark.deep
@pytest.mark.spark
def test_a_load_that_is_killed_is_made_by_the_next(
    client: Client, new_topic: NewTopic, drumlin_address: str, tmp_path: Path
) -> None:
    """Driver, JVM and workers at once, while tasks write files."""
    topic, lake = new_topic(), tmp_path / "lake"
    values = [f"value-{number}" * 20 for number in range(300_000)]
    client.append(pa.table({"value": values}), topic)
    given = {"brokers": drumlin_address, "topic": topic, "lake": str(lake)}
    arguments = [f"--{name}={value}" for name, value in given.items()]
    with subprocess.Popen(
        [sys.executable, str(PIPELINES / "lake.py"), *arguments],
        env={**os.environ, **spark_environment()},
        start_new_session=True,
    ) as process:
        wait_until(lambda: any(lake.glob("_aside/*/*.parquet")), "a task that writes", 120)
        os.killpg(process.pid, signal.SIGKILL)
    assert not list(lake.glob("load=*"))
    _run("lake", *arguments)
    _run("lake", *arguments)
    assert [each.name for each in lake.glob("load=*")] == ["load=00000000"]
    in_order = [("partition", "ascending"), ("offset", "ascending")]
    loaded = pq.read_table(lake, columns=["partition", "offset"]).sort_by(in_order)
    assert loaded.columns == client.read(topic, columns=["partition", "offset"]).columns

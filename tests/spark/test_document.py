"""The programs of README.md and of the documents with Spark run as they stand there."""

from __future__ import annotations

import importlib.util
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

import drumlin
from rig.brokers.drumlin_server import DrumlinServer, running_server
from rig.documents.walkthrough import Walkthrough
from rig.servers.schema_registry import running_registry
from spark.sink_proof.reading import read_committed
from spark.topics import Topic

pytestmark = pytest.mark.spark

#: How commands begin that set a machine up.
SET_UP = ("mkdir ../trial", "python3 -m venv", "pip ")
DOCUMENTS = Path(__file__).parents[2] / "docs"


@pytest.mark.deep
def test_programs_run(spark: SparkSession, address: str, tmp_path: Path) -> None:
    Topic(address, 2, name="flights").create().fill(100)
    for name in ("loud-flights", "copied-flights", "counts"):
        Topic(address, 2, name=name).create()
    names = _run("spark.md", {"127.0.0.1:9092": address, "/data/": f"{tmp_path}/"})
    assert names["flights"].count() == 100
    assert spark.read.parquet(str(tmp_path / "flights")).count() == 100
    for name, expected in (("loud-flights", 100), ("copied-flights", 100), ("counts", 11)):
        assert len(read_committed(address, name, 2, 30)) == expected
    sizes = {row.partition: row["sum(records)"] for row in names["sizes_of_partitions"].collect()}
    assert sizes == {0: 50, 1: 50}
    assert names["histogram"].groupBy().sum("records").first()[0] == 100
    assert spark.read.parquet(str(tmp_path / "sizes")).groupBy().sum("records").first()[0] == 100


@pytest.mark.deep
def test_the_table_in_a_log(spark: SparkSession, address: str, tmp_path: Path) -> None:
    """What the document says of its rows."""
    written = [(b"ada", b"10"), (b"bob", b"20"), (b"ada", b"15")]
    Topic(address, 2, name="balances").create().write(
        (len(value) % 2, key, value, int(time.time() * 1000), None) for key, value in written
    )
    provider = "spark.sql.streaming.stateStore.providerClass"
    before = spark.conf.get(provider)
    names = _run("spark-state.md", {"127.0.0.1:9092": address, "/data/": f"{tmp_path}/"})
    spark.conf.set(provider, before)
    rows = {(bytes(row.key), bytes(row.value)) for row in names["balances"].collect()}
    assert rows == {(b"ada", b"15"), (b"bob", b"20")}
    assert names["then"].count() == 0
    assert names["now"].count() == 2
    moved = sorted(row.operation for row in names["moved"].collect())
    assert moved == ["insert", "insert", "update"]
    assert spark.read.parquet(str(tmp_path / "changes")).count() == 3
    assert (names["report"].record_count, names["report"].end_offsets) == (2, {0: 3, 1: 0})


def test_the_readme_runs_from_its_first_program_to_spark(spark: SparkSession, address: str) -> None:
    names = _run("../README.md", {"127.0.0.1:9092": address})
    rows = names["prices"].selectExpr("string(key) AS key", "string(value) AS value").collect()
    assert sorted(map(tuple, rows)) == [("ACME", "42.17"), ("ACME", "42.18"), ("DRUM", "7.50")]


@pytest.mark.deep
def test_the_tutorial(spark: SparkSession, tmp_path: Path) -> None:
    """From its first command on, with a broker of its own."""
    with Walkthrough(tmp_path, lambda command: command.startswith(SET_UP)) as walk:
        walk.replaced |= {f'"./{name}': f'"{tmp_path}/{name}' for name in ("readings", "latest")}
        walk.follow(DOCUMENTS / "tutorials" / "pyspark.md")
    assert walk.names["first_run"] == walk.names["second_run"] == 1000


@pytest.mark.deep
def test_typed_values(spark: SparkSession, address: str, tmp_path: Path) -> None:
    topics = {
        name: Topic(address, 1, name=name).create()
        for name in ("orders", "avro-orders", "good-orders", "dead-orders")
    }
    values = (b'{"id": 1, "price": 12.5, "tags": ["new"]}', b"not JSON")
    topics["orders"].write((0, None, value, 1_700_000_000_000, None) for value in values)
    replaced = {"127.0.0.1:9092": address, "/data/": f"{tmp_path}/"}
    with running_registry() as registry:
        names = _run("typed-values.md", replaced | {"http://127.0.0.1:8081": registry.url})
        assert [row.id for row in names["orders"].collect()] == [1]
        assert [row.order.price for row in names["decoded_orders"].collect()] == [12.5]
    assert list(names["decoder"].decode(names["table"]["value"]).reasons) == [1]
    assert [len(read_committed(address, name, 1, 30)) for name in topics] == [2, 5, 1, 1]


def test_what_is_left_of_a_compacted_topic(spark: SparkSession, address: str) -> None:
    names = _run("compaction.md", {"127.0.0.1:9092": address})
    assert names["left"]["offset"].to_pylist() == [2, 3, 4]
    state = {bytes(row.key): bytes(row.value) for row in names["state"].collect()}
    assert state == {b"ann": b"15", b"eve": b"7"}


def test_landings(spark: SparkSession, new_broker: DrumlinServer, tmp_path: Path) -> None:
    _fill_landed(new_broker.address)
    names = _run("landing.md", {"127.0.0.1:9092": new_broker.address, "/data/": f"{tmp_path}/"})
    assert names["each"].topic == "orders"
    assert names["each"].lag == 0
    assert DeltaTable(tmp_path / "users").count() == 2


@pytest.mark.deep
@pytest.mark.timeout(900)
def test_the_commands_of_landings(
    new_broker: DrumlinServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for those that need what a reader brings."""
    _fill_landed(new_broker.address)
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__WAREHOUSE", f"file://{tmp_path}/warehouse")
    brought = ("pip ", "export ", "postgresql:", "--properties")
    with Walkthrough(tmp_path, lambda text: any(each in text for each in brought)) as walk:
        walk.address = new_broker.address
        walk.replaced["/data/"] = f"{tmp_path}/"
        walk.follow(DOCUMENTS / "landing.md", without=("land(spark",))
    assert pq.read_table(tmp_path / "lake").num_rows == 1
    assert DeltaTable(tmp_path / "orders").to_pyarrow_table()["price"].to_pylist() == [12.5]
    assert list((tmp_path / "warehouse").rglob("*.parquet"))


def _fill_landed(address: str) -> None:
    value = b'{"id": 1, "price": 12.5, "tags": ["new"]}'
    with drumlin.connect(address) as client:
        for name in ("flights", "users", "orders"):
            policy = {"cleanup.policy": "compact"} if name == "users" else {}
            client.create_topic(name, 1, configs=policy)
            keys = ["ada", "bob"] if name == "users" else ["ada"]
            client.append(pa.table({"key": keys, "value": [value] * len(keys)}), name)


@pytest.fixture
def new_broker(tmp_path: Path) -> Iterator[DrumlinServer]:
    (tmp_path / "broker").mkdir()
    with running_server(tmp_path / "broker") as server:
        yield server


def test_the_test_with_spark(
    spark: SparkSession, drumlin_broker: Any, drumlin_client: Any, drumlin_topic: str
) -> None:
    """Of docs/testing.md."""
    names = _run("testing.md", {}, "def test_with_spark(")
    names["test_with_spark"](spark, drumlin_broker, drumlin_client, drumlin_topic)


def _run(document: str, replaced: dict[str, str], wanted: str = "") -> dict[str, Any]:
    """All programs, or those with what is `wanted`."""
    names: dict[str, Any] = {"__name__": "__main__"}  # so that workers get its functions by value
    text = (DOCUMENTS / document).read_text()
    for source in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        if wanted not in source:
            continue
        if "import polars" in source and importlib.util.find_spec("polars") is None:
            continue
        for written, here in replaced.items():
            source = source.replace(written, here)
        exec(compile(source, document, "exec"), names)
    return names

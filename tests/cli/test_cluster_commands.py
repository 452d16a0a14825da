"""Topics, configs, records and groups through the command line, on a real broker."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from cli.conftest import Result, Run
from rig.brokers.drumlin_server import DrumlinServer

Produce = Callable[..., int]


@pytest.fixture
def topic(run: Run, cluster: DrumlinServer, request: pytest.FixtureRequest) -> str:
    """A topic of two partitions, named after the test."""
    name = request.node.name.replace("[", "-").replace("]", "")
    assert run("topics", "create", name, "--partitions", "2").code == 0
    return name


@pytest.fixture
def produce(run: Run, monkeypatch: pytest.MonkeyPatch) -> Produce:
    """`drumlin produce` with standard input; the number of records."""

    def produce(text: str, *arguments: str) -> int:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        result = run("produce", "--json", *arguments)
        assert result.code == 0, result.err
        return int(result.json["records"])

    return produce


def test_a_topic_from_creation_to_deletion(run: Run, cluster: DrumlinServer) -> None:
    created = run("topics", "create", "life", "-p", "2", "-c", "retention.ms=1000")
    assert (created.code, created.out) == (0, "life: created\n")
    assert run("topics", "create", "life", "--if-not-exists").out == "life: exists\n"
    assert ["life", "2", "1"] in run("topics", "list", "l*").rows
    assert run("topics", "add-partitions", "life", "3", "--yes").code == 0
    described = run("topics", "describe", "life", "--json").json[0]
    assert [each["partition"] for each in described["partitions"]] == [0, 1, 2]
    assert run("topics", "delete", "life", "--yes").code == 0
    assert "life" not in run("topics", "list").out


def test_one_refusal_keeps_no_other_from_being_done(run: Run, cluster: DrumlinServer) -> None:
    created = run("topics", "create", "one", "no/slash", "two", "no space")
    assert (created.code, created.out) == (1, "one: created\ntwo: created\n")
    assert [line.split(":")[1] for line in created.err.splitlines()] == [
        " topic 'no/slash'",
        " topic 'no space'",
    ]
    deleted = run("topics", "delete", "one", "nowhere", "two", "--yes", "--json")
    assert deleted.code == 1
    assert deleted.json == [{"topic": name, "deleted": True} for name in ("one", "two")]
    assert deleted.err.count("\n") == 1
    gone = run("groups", "delete", "nobody", "no-one", "--yes")
    assert (gone.code, gone.out, gone.err.count("\n")) == (1, "", 2)


@pytest.mark.parametrize("broker", ["drumlin", pytest.param("kafka", marks=pytest.mark.kafka)])
def test_levels_of_a_brokers_loggers(run: Run, broker: str, request: pytest.FixtureRequest) -> None:
    address: str = request.getfixturevalue(f"{broker}_address")

    def configs(*arguments: str) -> Result:
        return run("configs", *arguments, "--bootstrap", address)

    def level_of(logger: str) -> str:
        listed = configs("describe", "broker-logger", "1", "--json").json
        return next(str(each["value"]) for each in listed if each["key"] == logger)

    before = level_of("root")
    changed = configs("alter", "broker-logger", "1", "--set", "root=ERROR")
    assert (changed.code, changed.out) == (0, "broker-logger 1: changed root\n")
    assert level_of("root") == "ERROR"
    assert configs("alter", "broker-logger", "1", "--set", f"root={before}").code == 0
    assert level_of("root") == before
    assert configs("alter", "broker-logger", "1", "--set", "root=NOISY").code == 1
    assert configs("describe", "broker-logger", "default").code == 2


def test_refusals_are_one_line(run: Run, topic: str) -> None:
    for arguments in (
        ["topics", "create", topic],
        ["topics", "create", "no/slash"],
        ["topics", "create", "never", "-c", "no.such.key=1"],
        ["topics", "describe", "nowhere"],
        ["topics", "add-partitions", topic, "1", "--yes"],
        ["configs", "alter", "topic", topic, "--set", "retention.ms=soon"],
        ["configs", "describe", "topic", "nowhere"],
        ["groups", "describe", "nobody"],
        ["groups", "delete", "nobody", "--yes"],
        ["consume", topic, "--from", "7"],
        ["consume", topic, "--from", "some day"],
        ["consume", topic, "--format", "{nonsense}"],
        ["consume", topic, "--partition", "9"],
        ["consume", topic, "-o", "/nowhere/records.parquet"],
        ["consume", topic, "-o", "/nowhere/records.arrow"],
        ["consume", "nowhere"],
        ["produce", "no/slash"],
        ["produce", topic, "nowhere.txt"],
    ):
        result = run(*arguments)
        assert result.code in (1, 2), arguments
        assert result.err.count("\n") == 1, result.err
        assert "unexpected" not in result.err
        assert "Errno" not in result.err
    assert run("consume", "nowhere").err == "drumlin: there is no topic 'nowhere'\n"
    assert run("consume", topic, "--partition", "9").err == (
        f"drumlin: topic '{topic}' has no partition 9, only 0 to 1\n"
    )


def test_lines_come_back_as_they_went_in(run: Run, topic: str, produce: Produce) -> None:
    assert produce("one\ntwo\n\nfour\n", topic, "--partition", "1") == 4
    assert run("consume", topic).out == "one\ntwo\n\nfour\n"
    assert run("consume", topic, "-n", "2").out == "one\ntwo\n"
    assert run("consume", topic, "--from", "-1", "--partition", "1").out == "four\n"
    assert run("consume", topic, "--from", "1", "--until", "2", "-p", "1").out == "two\n"
    assert run("consume", topic, "--from", "1h").out == "one\ntwo\n\nfour\n"
    assert run("consume", topic, "--until", "@1000").out == ""


def test_keys_nulls_and_headers(run: Run, topic: str, produce: Produce) -> None:
    produce("a:1\nb:\n:3\n", topic, "-k", ":", "--null", "", "-H", "from=test", "-p", "0")
    shown = run("consume", topic, "--format", "{offset} {key}={value} {headers}", "--null", "NULL")
    assert shown.out.splitlines() == [
        "0 a=1 from=test",
        "1 b=NULL from=test",
        "2 NULL=3 from=test",
    ]


def test_json_lines_make_a_round_trip(run: Run, topic: str, produce: Produce) -> None:
    line = '{"key": {"base64": "/wA="}, "value": "é", "headers": [{"key": "h", "value": null}]}\n'
    produce(line + '{"value": null}\n', topic, "--json-lines", "--partition", "0")
    first = run("consume", topic, "--json")
    assert first.json_lines[0] | {"timestamp": 0} == {
        "topic": topic,
        "partition": 0,
        "offset": 0,
        "timestamp": 0,
        "key": {"base64": "/wA="},
        "value": "é",
        "headers": [{"key": "h", "value": None}],
    }
    produce(first.out, topic, "--json-lines", "--partition", "1")
    again = run("consume", topic, "--json", "--partition", "1").json_lines
    assert [row | {"partition": 0} for row in again] == first.json_lines


def test_a_line_that_is_no_record_is_named(run: Run, topic: str, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text('{"value": "1"}\n{"valeu": "2"}\n')
    result = run("produce", topic, str(lines), "--json-lines")
    assert result.code == 1
    assert result.err.startswith(f"drumlin: {lines}, line 2: ")
    assert result.err.endswith("; 1 record was written\n")
    assert run("consume", topic).out == "1\n"


def test_a_file_that_fails_half_way_says_how_much_of_it_was_written(
    run: Run, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "rows.csv"
    # Batches of a CSV file have a megabyte; the last line of the third is cut off.
    file.write_text("value,n\n" + f"{'x' * 1000},1\n" * 3000 + "alone\n")
    result = run("produce", topic, str(file), "--value", "value", "--partition", "0")
    assert result.code == 1
    there = len(run("consume", topic, "--format", "{offset}").out.splitlines())
    assert 0 < there < 3000
    assert result.err.endswith(f"; {there:,} records were written\n")


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_records_through_a_columnar_file(
    run: Run, topic: str, produce: Produce, tmp_path: Path, suffix: str
) -> None:
    file = tmp_path / f"records.{suffix}"
    produce("".join(f"{i % 7}\t{i}\n" for i in range(500)), topic, "-k", r"\t", "-H", "h=x")
    before = run("consume", topic, "--json", "-o", str(file), "--headers")
    assert before.json["records"] == 500
    assert (
        run("produce", topic, str(file), "--compression", "zstd", "--json").json["records"] == 500
    )
    rows = run("consume", topic, "--json").json_lines
    kept = sorted((row["key"], row["value"], row["timestamp"], str(row["headers"])) for row in rows)
    assert len(kept) == 1000
    assert kept[::2] == kept[1::2]


def test_rows_of_any_table_become_json(run: Run, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "flights.parquet"
    table = pa.table({"tailnum": ["N1", "N2"], "delay": [3, None]})
    pyarrow.parquet.write_table(table, file)
    run("produce", topic, str(file), "--key", "tailnum", "--partition", "0")
    assert run("consume", topic, "--format", "{key} {value}").out.splitlines() == [
        'N1 {"tailnum": "N1", "delay": 3}',
        'N2 {"tailnum": "N2", "delay": null}',
    ]


def test_deleted_records_are_gone(run: Run, topic: str, produce: Produce) -> None:
    produce("a\nb\nc\n", topic, "-p", "0")
    done = run("topics", "delete-records", topic, "--before", "2", "-p", "0", "--yes")
    assert done.rows == [[topic, "0", "2"]]
    assert run("consume", topic).out == "c\n"
    produce("a\nb\n", topic, "-p", "1")
    half = run("topics", "delete-records", topic, "--before", "1", "-p", "1", "-p", "9", "--yes")
    assert half.code == 1
    assert half.rows == [[topic, "1", "1"]]
    assert half.err.count("\n") == 1


def test_configs_show_what_was_set(run: Run, topic: str) -> None:
    def values() -> dict[str, str]:
        rows = run("configs", "describe", "topic", topic, "--json").json
        return {row["key"]: row["value"] for row in rows if row["source"] == "topic"}

    run(
        "configs",
        "alter",
        "topic",
        topic,
        "-s",
        "retention.ms=5",
        "--append",
        "cleanup.policy=compact",
    )
    assert values() == {"retention.ms": "5", "cleanup.policy": "delete,compact"}
    run("configs", "alter", "topic", topic, "--dry-run", "--set", "retention.ms=6")
    run(
        "configs",
        "alter",
        "topic",
        topic,
        "-u",
        "retention.ms",
        "--subtract",
        "cleanup.policy=delete",
    )
    assert values() == {"cleanup.policy": "compact"}
    everything = run("configs", "describe", "topic", topic, "--all", "--json").json
    assert len(everything) > 20


def test_configs_of_a_broker(run: Run, cluster: DrumlinServer) -> None:
    described = run("configs", "describe", "broker", _node_id(run))
    assert any(row[:2] == ["num.partitions", "2"] for row in described.rows)


def _node_id(run: Run) -> str:
    run("topics", "create", "for-its-leader", "--if-not-exists")
    described = run("topics", "describe", "for-its-leader", "--json").json
    return str(described[0]["partitions"][0]["leader"])


def test_a_group_goes_on_where_it_was(run: Run, topic: str, produce: Produce) -> None:
    produce("a\nb\nc\n", topic, "-p", "0")
    assert run("consume", topic, "--group", f"g-{topic}", "-n", "2").out == "a\nb\n"
    assert run("consume", topic, "--group", f"g-{topic}").out == "c\n"
    produce("d\n", topic, "-p", "0")
    rows = run("groups", "describe", f"g-{topic}", "--json").json[0]["offsets"]
    assert [row["lag"] for row in rows if row["partition"] == 0] == [1]
    assert [f"g-{topic}", "Empty"] in [row[:2] for row in run("groups", "list").rows]
    assert run("groups", "delete-offsets", f"g-{topic}", topic, "-p", "0", "--yes").code == 0
    assert run("groups", "delete", f"g-{topic}", "--yes").code == 0
    assert f"g-{topic}" not in run("groups", "list").out


def test_follow_shows_what_comes_later(
    topic: str, produce: Produce, cluster: DrumlinServer
) -> None:
    produce("before\n", topic, "-p", "0")
    command = [sys.executable, "-m", "drumlin", "consume", topic, "-b", cluster.address]
    command += ["--follow", "--from", "beginning", "-n", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as follower:
        assert follower.stdout is not None
        assert follower.stdout.readline() == "before\n"
        produce("after\n", topic, "-p", "0")
        assert follower.stdout.readline() == "after\n"
        assert follower.wait(30) == 0

"""Debezium's envelope, read by Kafka Connect's converter and by Debezium's own transformation."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

import rig.jvm
from capture.captured import Captured
from rig.jvm.jars import jar_folder, java
from rig.servers.apache_kafka import JVM
from rig.servers.running import skipped_where_unavailable

_PROGRAM = Path(rig.jvm.__file__).with_name("Envelopes.java")
_ROW = """
INSERT INTO item VALUES (1, 'héllo', 12.50, -1.5, '2024-02-29', '2024-02-29 12:34:56.5',
  '2024-02-29 12:00:00+02', '\\x00ff', '{1,NULL}', 0.5, true, 'ok')
"""
_AFTER = (
    "{id=1,t=héllo,n=12.50,nn={scale=1,value=0xf1},d=19782,ts=1709210096500000,"
    "tz=2024-02-29T10:00:00.000000Z,b=0xff,a=[1,null],f=0.5,ok=true,m=ok"
)


def _converted(captured: Captured, has_schemas: bool) -> list[Sequence[str]]:
    def coded(data: bytes | None) -> str:
        return "-" if data is None else base64.b64encode(data).decode()

    topic = captured.topic("item")
    lines = [
        f"{topic} {coded(each.key)} {coded(each.value)}\n"
        for batch in captured.client.read_records(topic, isolation="read_committed")
        for each in batch
    ]
    with skipped_where_unavailable():
        jars = f"{jar_folder('connect-jars')}/*:{jar_folder('debezium-jars')}/*"
        command = [java(), *JVM, "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", "-cp", jars]
    ended = subprocess.run(
        [*command, str(_PROGRAM), str(has_schemas).lower()],
        input="".join(lines),
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    return [line.split("\t") for line in ended.stdout.splitlines()]


@pytest.mark.deep
@pytest.mark.parametrize("format_", ["debezium", "debezium-schemas"])
def test_connect_reads_it(captured: Captured, format_: str) -> None:
    captured.run(
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        "CREATE TABLE item (id int PRIMARY KEY, t text, n numeric(8, 2), nn numeric, d date,"
        " ts timestamp, tz timestamptz, b bytea, a int[], f double precision, ok bool, m mood)",
    )
    captured.start_here(format=format_, partitions=1)
    captured.await_all()
    captured.run(_ROW, "UPDATE item SET t = 'x'", "UPDATE item SET id = 2", "DELETE FROM item")
    captured.await_all()
    found = _converted(captured, format_ == "debezium-schemas")
    keys, values, rows = zip(*found, strict=True)
    assert keys == ("{id=1}", "{id=1}", "{id=1}", "{id=1}", "{id=2}", "{id=2}", "{id=2}")
    assert [each == "null" for each in values] == [False] * 3 + [True, False, False, True]
    if format_ == "debezium":
        return
    assert f"{{before=null,after={_AFTER}}},source={{version=" in values[0]
    assert ",op=c}" in values[0] and ",op=u}" in values[1] and ",op=d}" in values[2]
    assert rows[0] == f"{_AFTER},__deleted=false}}"
    assert rows[1] == rows[0].replace("héllo", "x")
    assert rows[2].startswith("{id=1,t=null,") and rows[2].endswith("__deleted=true}")
    assert rows[3] == "-"

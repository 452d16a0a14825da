"""kcat: what people have on the command line; built on an older librdkafka."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable

import pytest

pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed"),
]

Name = Callable[[str], str]


def kcat(bootstrap: str, *arguments: str, given: str = "") -> str:
    """What kcat prints."""
    done = subprocess.run(
        ["kcat", "-b", bootstrap, *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "codec",
    [
        "none",
        "zstd",
        *(pytest.param(each, marks=pytest.mark.deep) for each in ("gzip", "snappy", "lz4")),
    ],
)
def test_produce_and_consume(bootstrap: str, unique: Name, codec: str) -> None:
    topic = unique("topic")
    lines = "".join(f"key{number}:value{number}\n" for number in range(50))
    kcat(bootstrap, "-P", "-t", topic, "-K:", "-z", codec, "-H", "h=1", given=lines)
    out = kcat(bootstrap, "-C", "-t", topic, "-e", "-q", "-J", "-o", "beginning")
    records = [json.loads(line) for line in out.splitlines()]
    assert [(each["key"], each["payload"]) for each in records] == [
        (f"key{number}", f"value{number}") for number in range(50)
    ]
    assert all(each["headers"] == ["h", "1"] for each in records)


def test_metadata(bootstrap: str, unique: Name) -> None:
    topic = unique("topic")
    kcat(bootstrap, "-P", "-t", topic, given="x\n")
    listed = json.loads(kcat(bootstrap, "-L", "-J"))
    assert [each["name"] for each in listed["brokers"]] == [bootstrap]
    assert topic in {each["topic"] for each in listed["topics"]}


def test_offset_by_time(bootstrap: str, unique: Name) -> None:
    topic = unique("topic")
    kcat(bootstrap, "-P", "-t", topic, given="a\nb\n")
    assert kcat(bootstrap, "-Q", "-t", f"{topic}:0:0").strip().endswith("offset 0")


def test_group(bootstrap: str, unique: Name) -> None:
    topic = unique("topic")
    kcat(bootstrap, "-P", "-t", topic, given="a\nb\nc\n")
    group = ["-G", unique("group"), "-e", "-q", "-X", "auto.offset.reset=earliest"]
    assert kcat(bootstrap, *group, topic).split() == ["a", "b", "c"]
    kcat(bootstrap, "-P", "-t", topic, given="d\n")
    assert kcat(bootstrap, *group, topic).split() == ["d"]

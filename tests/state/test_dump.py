"""`drumlin state dump` shows what is committed."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from drumlin.cli import app
from drumlin.client.client import Client
from drumlin.state import Processor
from drumlin.state.changelog_format import POSITION_KEY, changelog_name

Made = Callable[..., Processor]


def test_a_state_is_dumped(
    client: Client, topic: str, group: str, made: Made, capsys: pytest.CaptureFixture[str]
) -> None:
    client.append({"key": [b"a", b"\xff", b"a"], "value": ["x", "y", "z"]}, topic)
    with made() as processor:
        for batch in processor:
            processor.state.count_by(batch.column("key"))
    assert app.main(["state", "dump", group, "counts", "--bootstrap", client.bootstrap]) == 0
    out, err = capsys.readouterr()
    shown = [json.loads(line) for line in out.splitlines()]
    assert sorted((str(each["key"]), each["value"]) for each in shown) == [
        ("a", "2"),
        ("{'base64': '/w=='}", "1"),
    ]
    assert f"as of {topic} offset" in err


def test_a_state_of_a_later_version_is_told(
    client: Client, group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    changelog = changelog_name(group, "counts")
    client.create_topic(changelog, 1, configs={"cleanup.policy": "compact"})
    client.append([{"key": POSITION_KEY, "value": b'{"format": 3}'}], changelog)
    assert app.main(["state", "dump", group, "counts", "--bootstrap", client.bootstrap]) == 1
    assert "it has format 3, but this version of Drumlin knows only" in capsys.readouterr().err


def test_a_state_that_is_not_there_is_told(
    client: Client, group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.main(["state", "dump", group, "counts", "--bootstrap", client.bootstrap]) == 1
    assert f"{group}-counts-changelog" in capsys.readouterr().err

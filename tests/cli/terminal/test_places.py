"""Places in a log: what people type is a place, or is refused in their words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import pytest

from drumlin.cli.dump.findings import Problem, base_offset_of
from drumlin.cli.dump.state_files import read_leader_epochs
from drumlin.cli.terminal.places import Place, parse_place


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("0", Place(offset=0)),
        ("9223372036854775807", Place(offset=2**63 - 1)),
        ("-5", Place(before_end=5)),
        ("@0", Place(time=datetime(1970, 1, 1, tzinfo=UTC))),
        ("@1372939200500", Place(time=datetime(2013, 7, 4, 12, 0, 0, 500_000, tzinfo=UTC))),
        ("2013-07-04T12:00+00:00", Place(time=datetime(2013, 7, 4, 12, tzinfo=UTC))),
    ],
)
def test_a_place(text: str, place: Place) -> None:
    assert parse_place(text) == place


@pytest.mark.parametrize(
    ("text", "alike"), [("1m", "60s"), ("1h", "60m"), ("1d", "24h"), ("-10m", "10m")]
)
def test_a_while_ago(text: str, alike: str) -> None:
    one, other = parse_place(text).time, parse_place(alike).time
    assert one is not None
    assert other is not None
    assert timedelta() <= other - one < timedelta(minutes=10), "it is counted from now"


@pytest.mark.parametrize(
    "text",
    [
        *("²", "-²", "@²", "²d", "1²", "-", "@", ""),
        *("9" * 5000, "-" + "9" * 5000, "@" + "9" * 5000, "9" * 5000 + "d"),
        *("9223372036854775808", "9999999999d", "@99999999999999999"),
    ],
)
def test_no_place(text: str) -> None:
    with pytest.raises(click.BadParameter, match="does not name a place in a log"):
        parse_place(text)


def test_digits_of_other_scripts_in_files(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    path.write_text("0\n2\n0 0\n² 5\n")
    (epoch, problem) = read_leader_epochs(path, deep=False)
    assert isinstance(epoch, dict)
    assert isinstance(problem, Problem)
    assert base_offset_of(tmp_path / "²²²²²²²²²²²²²²²²²²²².log") == 0

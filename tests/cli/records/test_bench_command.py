"""`drumlin bench`: its figures are of what it did, and nothing is left of it."""

from __future__ import annotations

import pytest

from cli.conftest import Run
from rig.brokers.drumlin_server import DrumlinServer


@pytest.fixture(
    params=["drumlin", pytest.param("kafka", marks=[pytest.mark.kafka, pytest.mark.deep])]
)
def address(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(f"{request.param}_address")
    return found


def test_bench(address: str, run: Run) -> None:
    small = ("-s", "1", "-p", "3", "--record-bytes", "100", "--limit", "8")
    result = run("bench", *small, "--json", "-b", address)
    assert result.code == 0, result.err
    assert result.err.startswith("topic drumlin-bench-")
    by_measure = {each["measure"]: each for each in result.json}
    assert list(by_measure) == ["produce", "consume", "acks", "end to end"]
    for each in ("produce", "consume"):
        of = by_measure[each]
        assert of["bytes_per_s"] / of["records_per_s"] == pytest.approx(100, rel=0.01)
    assert by_measure["acks"]["records"] == by_measure["end to end"]["records"] == 33
    for each in ("acks", "end to end"):
        of = by_measure[each]
        assert 0 < of["p50_ms"] <= of["p95_ms"] <= of["p99_ms"] <= of["max_ms"]
    assert "drumlin-bench" not in run("topics", "list", "-b", address).out


def test_bench_removes_its_topic_after_an_error(
    cluster: DrumlinServer,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from drumlin.cli.records import bench

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "_read", interrupted)
    result = run("bench", "-s", "1", "--limit", "1")
    assert result.code == 130
    assert "made for this" in result.err
    assert "drumlin-bench" not in run("topics", "list").out
    assert run("bench", "--acks", "none").code == 2

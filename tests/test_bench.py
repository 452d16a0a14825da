"""What a benchmark leaves as its result."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from bench.__main__ import BENCHES, arguments_of
from bench.harness import Comparison, Metric
from bench.published import DOCUMENT, PUBLISHED, Runs, figure

from rig.waiting import wait_until

_ROOT = Path(__file__).parents[1]


def _running_in(directory: Path) -> list[int]:
    """Processes that were told to work there."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            is_there = f"{directory}/".encode() in each.read_bytes()
        except OSError:
            continue  # it has ended
        if is_there:
            found.append(int(each.parent.name))
    return found


def test_a_benchmark_that_is_ended_leaves_neither_its_broker_nor_its_files(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench", "turns", "--rows", "api_versions"]
    path = os.pathsep.join([str(_ROOT), str(_ROOT / "tests")])
    bench = subprocess.Popen(
        [*command, "--directory", str(tmp_path)],
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": path},
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: bool(_running_in(tmp_path)), "its broker", 60)
        bench.terminate()
        assert bench.wait(60) == 128 + signal.SIGTERM
        assert not _running_in(tmp_path)
        assert not list(tmp_path.iterdir())
    finally:
        bench.kill()
        bench.wait()
        for pid in _running_in(tmp_path):
            os.kill(pid, signal.SIGKILL)


_ENDED_AT_ITS_START = """
import os, signal, subprocess, sys
from pathlib import Path
from rig.brokers.process import BrokerProcess

signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
begin = subprocess.Popen._execute_child

def begin_and_be_ended(*arguments, **options):
    begin(*arguments, **options)
    os.kill(os.getpid(), signal.SIGTERM)

subprocess.Popen._execute_child = begin_and_be_ended
broker = BrokerProcess(Path(sys.argv[1]))
try:
    broker.launch(["sleep", "60"])
finally:
    print(broker.process is not None)
    broker.close()
"""


def test_a_signal_while_a_program_starts_does_not_lose_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _ENDED_AT_ITS_START, str(tmp_path / "output")],
        env={**os.environ, "PYTHONPATH": str(_ROOT / "tests")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (3, "True\n"), done.stderr


def test_what_is_published_comes_from_commands_that_there_are() -> None:
    for command in PUBLISHED:
        its = arguments_of(command.split())
        assert its.benches
        assert set(its.benches) <= BENCHES.keys()


def test_the_document_publishes_what_its_commands_gave_and_nothing_else() -> None:
    document = DOCUMENT.read_text()
    shown = re.findall(r"^`\./script/bench (.*)`$", document, re.MULTILINE)
    assert shown == list(PUBLISHED)


def test_figures_are_short_and_have_no_exponent() -> None:
    shown = [figure(each) for each in (0.2841, 41.26, 594_321.0, 3_114_000.0, 99.96, 1234.5)]
    assert shown == ["0.284", "41.3", "594,000", "3.11 M", "100", "1,230"]


def test_a_table_tells_spread_missed_goals_and_a_busy_generator(tmp_path: Path) -> None:
    rate = Metric("rate", "requests/s", target=2.0)
    generator = Metric("generator", "% generator CPU", higher_is_better=False)
    measured = [
        Comparison("produce", "small", rate, "Drumlin", "Kafka", [10.0, 30.0], [10.0, 20.0]),
        Comparison("produce", "small", generator, "Drumlin", "Kafka", [90.0], [40.0]),
    ]
    runs = Runs(tmp_path / "published.json")
    document = tmp_path / "benchmarks.md"
    document.write_text("before\n<!-- results -->\nold\n<!-- end of results -->\nafter\n")
    with pytest.raises(ValueError, match="not measured yet: real_clients"):
        runs.write_document(document)
    for command in PUBLISHED:
        runs.store(command, measured)
    Runs(tmp_path / "published.json").write_document(document)
    text = document.read_text()
    row = "| small (generator busy) | requests/s | 20 | 15 | 1.2 (1 to 1.5) | **≥ 2** |"
    assert text.count(row) == len(PUBLISHED)
    assert "old" not in text
    assert "generator CPU" not in text
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    document.write_text("<!-- end of results -->\n<!-- results -->\n")
    with pytest.raises(ValueError, match=r"benchmarks\.md lacks the marks"):
        runs.write_document(document)

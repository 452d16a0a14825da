"""The lists of mutants are true; their runner tells faults that are noticed from others."""

from __future__ import annotations

import ast
import functools
import inspect
from pathlib import Path

import pytest

from drumlin.broker.context import RequestContext
from mutation.__main__ import main
from mutation.mutant import LISTS, ROOT, Inapplicable, Mutant, all_mutants, listed
from mutation.questions import FUNCTIONS, METHODS, all_questions, asking_functions
from mutation.results import RESULTS, Outcome, Results

_LIST = """
[[mutant]]
id = "noticed"
file = "sum.py"
old = "a + b"
new = "a - b"
tests = ["tests/test_sum.py"]
loses = "sums"

[[mutant]]
id = "unnoticed"
file = "sum.py"
old = "3 * a"
new = "4 * a"
tests = ["tests/test_sum.py"]
loses = "products"
"""

#: They ask, and no API can forget to call them, as they do its work.
_ASK_AND_ANSWER = {"answer_partitions", "change", "led_topics", "member_of"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A source tree with a test, which notices one of two faults."""
    root = tmp_path / "tree"
    for name in ("src/drumlin/testing", "tests", "lists"):
        (root / name).mkdir(parents=True)
    for name in ("__init__", "testing/__init__", "testing/plugin"):  # which pytest loads
        (root / f"src/drumlin/{name}.py").touch()
    source = "def total(a, b):\n    return a + b\n\n\ndef triple(a):\n    return 3 * a\n"
    (root / "src/drumlin/sum.py").write_text(source)
    test = "from drumlin.sum import total\n\n\ndef test_total():\n    assert total(2, 3) == 5\n"
    (root / "tests/test_sum.py").write_text(test)
    markers = "\n".join(f'    "{each}",' for each in ("deep", "kafka", "zookeeper", "spark"))
    (root / "pyproject.toml").write_text(f"[tool.pytest.ini_options]\nmarkers = [\n{markers}\n]\n")
    (root / "lists/sums.toml").write_text(_LIST)
    return root


def run(root: Path, *patterns: str) -> int:
    options = [f"--root={root}", f"--lists={root / 'lists'}", f"--results={root / 'results.tsv'}"]
    return main([*options, *patterns])


@functools.cache
def _questions() -> list[Mutant]:
    return all_questions(ROOT)


@functools.cache
def _text(file: str) -> str:
    return (ROOT / file).read_text("utf-8")


def check(mutants: list[Mutant]) -> None:
    """Each is one change of a source that compiles, and names tests that there are."""
    assert mutants
    for mutant in mutants:
        compile(mutant.mutated(ROOT), mutant.id, "exec")
        assert mutant.loses, mutant.id
        assert mutant.tests, mutant.id
        for name in mutant.tests:
            file, _, test = name.partition("::")
            assert (ROOT / file).exists(), f"{mutant.id}: {name}"
            is_there = not test or f"def {test.partition('[')[0]}(" in _text(file)
            assert is_there, f"{mutant.id}: {name}"


def results(root: Path) -> dict[str, Outcome]:
    return Results.load(root / "results.tsv").of


@pytest.mark.parametrize("path", sorted(LISTS.glob("*.toml")), ids=lambda each: each.stem)
def test_each_of_a_list_can_be_made(path: Path) -> None:
    check(listed(path))


def test_each_unasked_right_can_be_made() -> None:
    check(_questions())


def test_results_are_of_mutants_that_there_are() -> None:
    there_are = {each.id for each in (*all_mutants(), *_questions())}
    assert Results.load(RESULTS).of.keys() <= there_are


def test_nearly_all_are_noticed() -> None:
    found = Results.load(RESULTS).of.values()
    assert sum(each.is_noticed for each in found) >= 0.95 * len(found)


def test_a_fault_is_noticed_or_not(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (root / "src/drumlin/sum.py").read_text()
    assert run(root) == 1
    assert results(root) == {"noticed": Outcome.KILLED, "unnoticed": Outcome.SURVIVED}
    assert "1 of 2 noticed\nunnoticed\n" in capsys.readouterr().out
    assert (root / "src/drumlin/sum.py").read_text() == before
    assert not list(root.rglob("*.pyc")), "it is a copy that was run"


@pytest.mark.deep
def test_a_test_that_fails_anyway_notices_nothing(root: Path) -> None:
    (root / "tests/test_sum.py").write_text("def test_total():\n    assert False\n")
    assert run(root, "noticed") == 1
    assert results(root) == {"noticed": Outcome.FAILS_ANYWAY}


@pytest.mark.parametrize("count", [0, 2])
def test_a_text_that_does_not_stand_there_once_is_refused(
    root: Path, count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "src/drumlin/sum.py").write_text("# a + b\n" * count + "# 3 * a\n")
    assert run(root) == 2
    assert f"stands {count} times" in capsys.readouterr().err
    assert results(root) == {}


def test_a_change_that_changes_nothing_is_refused(root: Path) -> None:
    same = Mutant("same", "sum.py", "a + b", "a + b", ("tests/test_sum.py",), "nothing")
    with pytest.raises(Inapplicable, match="changes nothing"):
        same.mutated(root)


def test_two_of_one_id_are_refused(root: Path) -> None:
    (root / "lists/more.toml").write_text(_LIST)
    with pytest.raises(ValueError, match="noticed, unnoticed"):
        all_mutants(root / "lists")


def test_questions_about_rights_are_found_in_the_source(root: Path) -> None:
    handler = root / "src/drumlin/broker/handlers/end_txn.py"
    handler.parent.mkdir(parents=True)
    handler.write_text(
        "def handle(context):\n"
        "    context.require(WRITE, TXN, 'é')\n"
        "    if context.may(READ, GROUP, 'a') and context.may(READ, GROUP, 'a'):\n"
        "        context.maybe()\n"
    )
    found = {each.id: each.mutated(root) for each in all_questions(root)}
    assert found.keys() == {
        *("unasked-end-txn-require-1", "unasked-end-txn-may-1", "unasked-end-txn-may-2"),
    }
    assert "\n    None\n" in found["unasked-end-txn-require-1"]
    assert "    if True and context.may(" in found["unasked-end-txn-may-1"]
    assert "'a') and True:\n" in found["unasked-end-txn-may-2"]


def test_every_method_that_is_given_an_operation_is_a_question() -> None:
    asking = {
        name
        for name, method in inspect.getmembers(RequestContext, inspect.isfunction)
        if {"operation", "kind"} & inspect.signature(method).parameters.keys()
    }
    assert asking <= METHODS.keys()


def test_every_function_that_asks_for_apis_is_a_question() -> None:
    """Each API might forget to call it, which a mutant inside of it would not show."""
    broker = ROOT / "src" / "drumlin" / "broker"
    imported, asking = set[tuple[str, str]](), set[tuple[str, str]]()
    for path in broker.rglob("*.py"):
        source, module = path.read_text("utf-8"), path.relative_to(broker.parents[1])
        name = ".".join(module.with_suffix("").parts)
        asking |= {(name, each) for each in asking_functions(source)}
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and node.module:
                imported |= {(node.module, each.name) for each in node.names}
    names = {name for _, name in asking & imported}
    assert names - _ASK_AND_ANSWER <= FUNCTIONS.keys()
    assert names >= FUNCTIONS.keys() - {"require_login"}, "nobody calls these"

"""What came of each program, said at the end of `script/assure ecosystem`: hooks of pytest.

A test says by the mark `program` which program it runs, its version, and what it does with it.
What this machine lacks makes a program "not tried", which is never the same as passed. What was
tried is kept in `results.tsv`, from which docs/compatibility.md has its table; a test that is there
no more has no row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Generator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest

_TITLE = "what was tried"
_MARK = "program(name, version, tried): the program that a test runs, and what it does with it"
_T = TypeVar("_T")


class Verdict(NamedTuple):
    """Of one program, in one of the ways in which it is run."""

    came: str
    program: str
    version: str
    job: str
    found: str
    seconds: float


_VERDICTS = pytest.StashKey[dict[str, Verdict]]()
#: All tests of the files that were read, also those that were not chosen: by folder.
_THERE = pytest.StashKey[dict[Path, set[str]]]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARK)
    config.stash[_VERDICTS] = {}
    config.stash[_THERE] = defaultdict(set)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that does not say what it runs would be missing in the table."""
    silent = [item.nodeid for item in items if _is_here(item) and not _told(item)]
    if silent:
        raise pytest.UsageError(f"without the mark 'program': {', '.join(silent)}")


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """A module tells all of its tests, though only one of them may be wanted."""
    for item in report.result or ():
        if isinstance(item, pytest.Item) and _is_here(item):
            folder, name = _place(item)
            item.config.stash[_THERE][folder].add(name)


def pytest_collection_finish(session: pytest.Session) -> None:
    for item in filter(_is_here, session.items):
        _note(item, "NOT REACHED")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[_T]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if not _is_here(item):
        return report
    found = "; ".join(f"{what}" for key, what in report.user_properties if key == "found")
    before = item.config.stash[_VERDICTS][item.nodeid]
    came = _came(report, call)
    if report.when == "setup" and came == "passed":
        came = "BROKEN OFF"  # unless there is more to say
    elif report.when == "teardown" and (came == "passed" or before.came != "passed"):
        came = before.came
    _note(item, came, found, before.seconds + report.duration)
    return report


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    verdicts = config.stash[_VERDICTS].values()
    terminalreporter.section(_TITLE)
    names = [f"{each.program} {each.version}" for each in verdicts]
    width = max(map(len, names), default=0)
    for name, each in zip(names, verdicts, strict=True):
        tried = "; ".join(filter(None, (each.job, each.found)))
        line = f"{name:{width}}  {each.seconds:4.0f} s  {each.came}: {tried}"
        terminalreporter.write_line(line)
    passed = sum(each.came == "passed" for each in verdicts)
    terminalreporter.write_line(f"{passed} of {len(verdicts)} runs of programs passed")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Keep what came of those that were tried; of all others, what is kept already stays."""
    verdicts = session.config.stash[_VERDICTS]
    tried: dict[Path, dict[str, Verdict]] = defaultdict(dict)
    for item in session.items:
        if item.nodeid in verdicts:
            folder, name = _place(item)
            tried[folder][name] = verdicts[item.nodeid]
    for folder, found in tried.items():
        _keep(folder / "results.tsv", found, session.config.stash[_THERE][folder])


def _keep(path: Path, verdicts: Mapping[str, Verdict], there: Collection[str]) -> None:
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    rows = dict(each.split("\t", 1) for each in lines)
    read = {_file(name) for name in there}
    for name in rows.keys() - there:
        if _file(name) in read or not (path.parent / _file(name)).exists():
            del rows[name]
    for name, (came, program, version, job, found, _) in verdicts.items():
        if came in ("passed", "FAILED"):
            rows[name] = "\t".join((program, version, job, came.lower(), found))
    if rows:
        text = "".join(f"{name}\t{row}\n" for name, row in sorted(rows.items()))
        path.write_text(text, "utf-8")


def _is_here(item: pytest.Item) -> bool:
    return "/ecosystem/" in str(item.path)


def _place(item: pytest.Item) -> tuple[Path, str]:
    """The folder of the programs, and the test's name in its results."""
    folder = next(each for each in item.path.parents if each.name == "ecosystem")
    file = item.path.relative_to(folder).as_posix()
    return folder, f"{file}::{item.nodeid.partition('::')[2]}"


def _file(name: str) -> str:
    return name.partition("::")[0]


def _told(item: pytest.Item) -> tuple[Any, ...]:
    mark = item.get_closest_marker("program")
    return mark.args if mark is not None else ()


def _note(item: pytest.Item, came: str, found: str = "", seconds: float = 0) -> None:
    verdict = Verdict(came, *_told(item), found=found, seconds=seconds)
    item.config.stash[_VERDICTS][item.nodeid] = verdict


def _came(report: pytest.TestReport, call: pytest.CallInfo[_T]) -> str:
    """In a word; what was not tried, with the reason.

    A skip that counts as a failure has been made one, but was not tried all the same.
    """
    skipped = call.excinfo is not None and call.excinfo.errisinstance(pytest.skip.Exception)
    if skipped:
        assert call.excinfo is not None
        return f"not tried ({call.excinfo.value})"
    return "passed" if report.passed else "FAILED"

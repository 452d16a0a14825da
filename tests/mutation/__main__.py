"""Runs mutants: `PYTHONPATH=tests python -m mutation`, or `script/assure mutants`.

Each is put into a copy of the source tree, never into the checkout, and the tests that it names run
there. Before that they must pass in the copy as it is: a test that fails anyway notices nothing.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from mutation.mutant import LISTS, ROOT, Inapplicable, Mutant, all_mutants
from mutation.questions import all_questions
from mutation.results import RESULTS, Outcome, Results

_COPIED: Final = ("src", "tests", "docs", "pyproject.toml", "README.md", "CHANGELOG.md")
_LEFT_OUT: Final = shutil.ignore_patterns("__pycache__", "*.pyc")
_CACHE: Final = ".cache"  # programs that tests run; linked, as it is large and never changed
#: Hundreds of runs: without what waits for a JVM.
_QUICK: Final = "not deep and (not kafka or recorded) and not zookeeper and not spark"


class Tree:
    """A copy of what tests need, in which the source may be changed."""

    def __init__(self, root: Path, directory: Path) -> None:
        self.directory = directory
        self._written_s = int(time.time())
        directory.mkdir()
        for name in _COPIED:
            if (root / name).is_dir():
                shutil.copytree(root / name, directory / name, ignore=_LEFT_OUT)
            elif (root / name).exists():
                shutil.copy2(root / name, directory / name)
        if (root / _CACHE).exists():
            (directory / _CACHE).symlink_to((root / _CACHE).resolve())

    @contextmanager
    def with_fault(self, mutant: Mutant) -> Iterator[None]:
        """The fault is in the source meanwhile."""
        path, mutated = mutant.path(self.directory), mutant.mutated(self.directory)
        before = path.read_text("utf-8")
        self._write(path, mutated)
        try:
            yield
        finally:
            self._write(path, before)

    def _write(self, path: Path, source: str) -> None:
        path.write_text(source, "utf-8")
        # Bytecode is known by the second and the size of its source, which a fault need not change.
        self._written_s += 1
        os.utime(path, (self._written_s, self._written_s))

    def run(self, tests: Sequence[str], timeout_s: float, report: Path) -> int | None:
        """What pytest exits with at the first failure; None if it took too long, and was ended."""
        paths = [str(self.directory / each) for each in ("src", "tests")]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
        environment.pop("DRUMLIN_TEST_DEEP", None)  # as at each commit
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", _QUICK]
        command += ["-p", "no:cacheprovider", "-n", "0", *tests]
        with report.open("wb") as output:
            process = subprocess.Popen(
                command,
                cwd=self.directory,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                return process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                return None
            finally:
                # Servers that a test has started, too.
                with_all = os.killpg if process.returncode is None else _kill_rest
                with_all(process.pid, signal.SIGKILL)
                process.wait()


def _kill_rest(group: int, number: int) -> None:
    with suppress(ProcessLookupError):  # nobody is left
        os.killpg(group, number)


def outcome_of(tree: Tree, mutant: Mutant, timeout_s: float, report: Path) -> Outcome:
    """Run the tests of one mutant with its fault in the source."""
    with tree.with_fault(mutant):
        code = tree.run(mutant.tests, timeout_s, report)
    if code is None:
        return Outcome.TIMED_OUT
    if code == 0:
        return Outcome.SURVIVED
    # 1: a test failed; 2, 3 and 4: pytest could not begin, as where a module cannot be imported.
    return Outcome.KILLED if code == 1 else Outcome.BROKEN


class Trees:
    """Copies of the source, one for each mutant that runs at the same time."""

    def __init__(self, root: Path, directory: Path, timeout_s: float) -> None:
        """There is one at first."""
        self._directory = directory
        self._timeout_s = timeout_s
        self._free: SimpleQueue[Tree] = SimpleQueue()
        self._first = Tree(root, directory / "0")
        self._free.put(self._first)

    def add(self, count: int) -> None:
        """Copy the first one, with all that its tests have compiled."""
        for number in range(1, count + 1):
            self._free.put(Tree(self._first.directory, self._directory / str(number)))

    @contextmanager
    def one(self) -> Iterator[Tree]:
        """One that is free, for as long as it is needed."""
        tree = self._free.get()
        try:
            yield tree
        finally:
            self._free.put(tree)

    def sound(self, mutants: Sequence[Mutant], reports: Path) -> set[tuple[str, ...]]:
        """The tests that pass without a fault: in one run of all, or else each mutant's alone."""
        each = list(dict.fromkeys(mutant.tests for mutant in mutants))
        together = list(dict.fromkeys(name for tests in each for name in tests))
        with self.one() as tree:
            if tree.run(together, len(each) * self._timeout_s, reports / "without.txt") == 0:
                return set(each)
            return {
                tests
                for number, tests in enumerate(each)
                if tree.run(tests, self._timeout_s, reports / f"without-{number}.txt") == 0
            }

    def try_out(self, mutant: Mutant, report: Path) -> tuple[Outcome, float]:
        """What came of a mutant, and after how many seconds."""
        with self.one() as tree:
            began_at = time.monotonic()
            outcome = outcome_of(tree, mutant, self._timeout_s, report)
            return outcome, time.monotonic() - began_at


def run_all(
    root: Path,
    mutants: Sequence[Mutant],
    results: Results,
    timeout_s: float,
    reports: Path,
    jobs: int,
) -> None:
    """Some at a time; each result is kept as soon as it is known."""
    with tempfile.TemporaryDirectory(prefix="mutation-") as directory:
        trees = Trees(root, Path(directory), timeout_s)
        sound = trees.sound(mutants, reports)
        shown = [each for each in mutants if each.tests in sound]
        for mutant in mutants:
            if mutant not in shown:
                results.keep(mutant.id, Outcome.FAILS_ANYWAY)
                print(f"{mutant.id}: {Outcome.FAILS_ANYWAY}", flush=True)
        jobs = min(jobs, max(1, len(shown)))
        trees.add(jobs - 1)
        with ThreadPoolExecutor(jobs) as pool:
            running = {
                pool.submit(trees.try_out, each, reports / f"{each.id}.txt"): each for each in shown
            }
            try:
                for number, future in enumerate(as_completed(running), 1):
                    mutant = running[future]
                    outcome, seconds = future.result()
                    results.keep(mutant.id, outcome)
                    at = f"{number}/{len(shown)}"
                    print(f"{at} {mutant.id}: {outcome} ({seconds:.0f} s)", flush=True)
            finally:
                pool.shutdown(cancel_futures=True)  # who interrupts it does not wait for them


def chosen(mutants: Sequence[Mutant], patterns: Sequence[str]) -> list[Mutant]:
    """Those whose id or file one of the patterns matches; all without any."""
    return [
        each
        for each in mutants
        if not patterns or any(fnmatchcase(n, p) for n in (each.id, each.file) for p in patterns)
    ]


def main(arguments: Sequence[str]) -> int:
    """Exit code 0: all that ran were noticed."""
    parser = argparse.ArgumentParser(prog="script/assure mutants", description=__doc__)
    parser.add_argument("patterns", nargs="*", help="ids or files, as 'storage/*'; default: all")
    parser.add_argument("--root", type=Path, default=ROOT, help="the tree that is copied")
    parser.add_argument("--lists", type=Path, default=LISTS)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--reports", type=Path, help="a folder for what pytest says")
    parser.add_argument("--jobs", type=int, default=2, help="how many run at the same time")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for each mutant")
    options = parser.parse_args(arguments)
    mutants = [*all_mutants(options.lists), *all_questions(options.root)]
    wanted = chosen(mutants, options.patterns)
    for each in wanted:
        try:
            each.mutated(options.root)
        except Inapplicable as refusal:
            print(refusal, file=sys.stderr)
            return 2
    results = Results.load(options.results)
    results.forget_all_but(each.id for each in mutants)
    with tempfile.TemporaryDirectory(prefix="mutation-reports-") as directory:
        reports = options.reports or Path(directory)
        reports.mkdir(parents=True, exist_ok=True)
        run_all(options.root, wanted, results, options.timeout, reports, options.jobs)
    unnoticed = [each.id for each in wanted if not results.of[each.id].is_noticed]
    print(f"{len(wanted) - len(unnoticed)} of {len(wanted)} noticed", *unnoticed, sep="\n")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

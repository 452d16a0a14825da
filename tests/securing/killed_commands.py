"""Commands in processes that are killed at one of their writes.

A process that has imported what they need forks for each of them, as a start takes long.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rig.fault_injection.injector import Action, Call, Injector, Rule

_DIED = -signal.SIGKILL


class KilledCommands:
    """Runs command lines that change a folder."""

    def __init__(self, injector: Injector, folder: Path, calls: Iterable[Call]) -> None:
        """`calls`: the writes at which commands are killed."""
        self.folder = folder
        self._injector, self._calls = injector, calls
        environment = os.environ | injector.environment()
        environment["PYTHONPATH"] = os.pathsep.join(each for each in sys.path if each)
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def each_kill(self, *arguments: Any, typed: str = "") -> Iterator[int]:
        """Run a command again and again, each time killed at a later write, and at last after all
        of them. Yields the number of writes that were made; whoever asks restores the folder.
        """
        count = 0
        while self._is_killed(count, Action.KILL_BEFORE, arguments, typed):
            yield count
            count += 1
        yield count
        assert count, "it has written nothing"
        assert self._is_killed(count - 1, Action.KILL_AFTER, arguments, typed)
        yield count

    def _is_killed(
        self, after: int, action: Action, arguments: tuple[Any, ...], typed: str
    ) -> bool:
        rule = Rule(self._calls, after=after, times=1, part=str(self.folder), action=action)
        with self._injector.injected(rule):
            code = self.run(*arguments, typed=typed)
        assert code == (_DIED if self._injector.hits else 0)
        return code == _DIED

    def run(self, *arguments: Any, typed: str = "") -> int:
        """Returns the exit code of a command."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = {"arguments": [str(each) for each in arguments], "typed": typed}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(20)
        self._process.stdout.close()


@contextlib.contextmanager
def killed_commands(folder: Path, calls: Iterable[Call]) -> Iterator[KilledCommands]:
    """
    Raises:
        Unavailable: there is no compiler.
    """
    commands = KilledCommands(Injector(folder.parent / "faults"), folder, calls)
    try:
        yield commands
    finally:
        commands.close()


def _serve() -> None:
    from drumlin.cli import app
    from drumlin.securing import rotation, stored_users

    assert rotation
    assert stored_users
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if not child:
            os.dup2(2, 1)
            sys.stdin = io.StringIO(order["typed"])
            code = 70
            try:
                code = app.main(order["arguments"])
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    _serve()

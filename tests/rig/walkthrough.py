"""A document that is followed to the letter: its shell and Python blocks run in their order.

What a document shows under a command must be what the command prints: line by line, in order,
with `...` for what differs from run to run. A server that it starts runs until the walk ends.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from rig.ports import free_ports
from rig.process import BrokerProcess
from rig.waiting import wait_until

DOCUMENTED = "127.0.0.1:9092"
_BLOCK = re.compile(r"^```(console|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LIMIT_S = 120


class Command(NamedTuple):
    """A shell command of a document and the output that the document shows under it."""

    text: str
    shown: list[str]


def blocks(document: Path) -> Iterator[tuple[str, str]]:
    """The language and the text of each block that can be run."""
    for match in _BLOCK.finditer(document.read_text("utf-8")):
        yield match[1], match[2]


def commands(block: str) -> list[Command]:
    """`$` begins a command, `>` continues it, as shells show it; the rest is output."""
    found: list[Command] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append(Command(line[2:], []))
        elif line.startswith("> "):
            found[-1] = found[-1]._replace(text=f"{found[-1].text}\n{line[2:]}")
        else:
            found[-1].shown.append(line)
    return found


class _Server(BrokerProcess):
    pass


class Walkthrough:
    """A reader with an empty folder. `skips` says of a command why it is not run, or nothing."""

    def __init__(self, folder: Path, skips: Callable[[str], bool] = lambda _: False) -> None:
        self.folder = folder
        self.address = f"127.0.0.1:{free_ports(1)[0]}"
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.replaced = {DOCUMENTED: self.address}
        self._skips = skips
        self._servers: list[_Server] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for server in self._servers:
            server.close()

    def follow(self, document: Path, without: Sequence[str] = ()) -> None:
        """Run all blocks, but for Python that holds one of `without`."""
        for language, block in blocks(document):
            if language == "console":
                for command in commands(block):
                    self._run(command)
            elif not any(each in block for each in without):
                exec(compile(self._here(block), document.name, "exec"), self.names)

    def _here(self, text: str) -> str:
        for written, here in self.replaced.items():
            text = text.replace(written, here)
        return text

    def _run(self, command: Command) -> None:
        if self._skips(command.text):
            return
        text = self._here(command.text)
        if text.startswith("drumlin server "):
            self._serve(text, command.shown)
            return
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", text],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            stdin=subprocess.DEVNULL,
        )
        said = f"$ {text}\n{done.stdout}{done.stderr}"
        assert done.returncode == 0, said
        check_shown(command.shown, said.splitlines()[1:])

    def _serve(self, text: str, shown: Sequence[str]) -> None:
        server = _Server(self.folder / f"server-{len(self._servers)}.out")
        self._servers.append(server)
        words = shlex.split(text, comments=True)
        server.launch([sys.executable, "-m", *words], cwd=self.folder)

        def is_ready() -> bool:
            server.fail_if_ended()
            return "drumlin is ready on" in server.said()

        wait_until(is_ready, text, _LIMIT_S)
        check_shown([self._here(line) for line in shown], server.said().splitlines())

    @property
    def _environment(self) -> dict[str, str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return os.environ | {"PATH": path, "DRUMLIN_BOOTSTRAP": self.address}


def check_shown(shown: Sequence[str], said: Sequence[str]) -> None:
    """All lines that are shown were said, in this order."""
    position = 0
    for line in filter(None, map(str.strip, shown)):
        pattern = ".*".join(re.escape(" ".join(part.split())) for part in line.split("..."))
        pattern = pattern.replace(r"\ .*", ".*").replace(r".*\ ", ".*")
        while position < len(said):
            position += 1
            if re.fullmatch(pattern, " ".join(said[position - 1].split())):
                break
        else:
            raise AssertionError(f"{line!r} is not among:\n" + "\n".join(said))

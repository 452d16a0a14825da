"""A document that is followed to the letter: its shell and Python blocks run in their order.

What a document shows under a command must be what the command prints: line by line, in order,
with `...` for what differs from run to run. A server that it starts runs until the walk ends.
A block of Python that the document says to write into a file is written there.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from rig.brokers.process import BrokerProcess
from rig.documents.fresh_environment import FreshEnvironment
from rig.ports import free_ports
from rig.waiting import wait_until

DOCUMENTED = "127.0.0.1:9092"
_BLOCK = re.compile(
    r"(?:^[^\n`]*[Ww]rite this into `([^`\n]+)`[^`\n]*:\n\n)?^```(console|python)\n(.*?)^```",
    re.MULTILINE | re.DOTALL,
)
_LIMIT_S = 120


class Command(NamedTuple):
    """A shell command of a document and the output that the document shows under it."""

    text: str
    shown: list[str]


class Block(NamedTuple):
    """A block of a document, and the file that the reader is told to write it into."""

    language: str
    text: str
    file: str | None


def blocks(document: Path) -> Iterator[Block]:
    """Each block that can be run."""
    for match in _BLOCK.finditer(document.read_text("utf-8")):
        yield Block(match[2], match[3], match[1])


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


#: Runs blocks one after the other, as they are typed into one interpreter.
_SESSION = """
import json, sys
names = {"__name__": "__main__"}
for line in sys.stdin:
    exec(compile(json.loads(line), "document", "exec"), names)
    print("\\x04", flush=True)
"""


class Walkthrough:
    """A reader with an empty folder. `skips` says of a command whether it is left out.

    With an environment everything runs in that, also what `pip install` says; without one in
    this process, so that a test can look at the `names` of what has run.
    """

    def __init__(
        self,
        folder: Path,
        skips: Callable[[str], bool] = lambda _: False,
        environment: FreshEnvironment | None = None,
    ) -> None:
        self.folder = folder
        self.printed = ""
        self._environment = environment
        self._session: subprocess.Popen[str] | None = None
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
        if self._session is not None:
            self._session.kill()
            self._session.communicate()
        for server in self._servers:
            server.close()

    def follow(self, document: Path, without: Sequence[str] = ()) -> None:
        """Run all blocks, but for Python that holds one of `without`."""
        for block in blocks(document):
            if block.language == "console":
                for command in commands(block.text):
                    self._run(command)
            elif any(each in block.text for each in without):
                continue
            elif block.file is None and "def test_" in block.text:
                raise AssertionError(f"{document.name} does not say where this goes:\n{block.text}")
            elif block.file is not None:
                (self.folder / block.file).write_text(self._here(block.text))
            else:
                self.run_python(block.text, document.name)

    def run_python(self, text: str, name: str) -> None:
        """What it prints is in `printed`, if it runs in an environment of its own."""
        if self._environment is None:
            exec(compile(self._here(text), name, "exec"), self.names)
            return
        if self._session is None:
            self._session = subprocess.Popen(
                [self._environment.python, "-c", _SESSION],
                cwd=self.folder,
                env=self._variables,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        session = self._session
        assert session.stdin is not None and session.stdout is not None
        session.stdin.write(json.dumps(self._here(text)) + "\n")
        session.stdin.flush()
        while (line := session.stdout.readline()) != "\x04\n":
            assert line, f"{name}: this block failed:\n{text}"
            self.printed += line

    def _here(self, text: str) -> str:
        for written, here in self.replaced.items():
            text = text.replace(written, here)
        return text

    def run(self, command: str) -> None:
        """In a shell."""
        self._run(Command(command, []))

    def _run(self, command: Command) -> None:
        if self._skips(command.text):
            return
        text = self._here(command.text)
        if self._environment is not None and text.startswith("pip install "):
            self._environment.install(*shlex.split(text, comments=True)[2:])
            return
        if text.startswith("drumlin server "):
            self._serve(text, command.shown)
            return
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", text],
            cwd=self.folder,
            env=self._variables,
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
        python = sys.executable if self._environment is None else self._environment.python
        words = shlex.split(text, comments=True)
        server.launch([python, "-m", *words], cwd=self.folder)

        def is_ready() -> bool:
            server.fail_if_ended()
            return "drumlin is ready on" in server.said()

        wait_until(is_ready, text, _LIMIT_S)
        check_shown([self._here(line) for line in shown], server.said().splitlines())

    @property
    def _variables(self) -> dict[str, str]:
        if self._environment is not None:
            found = self._environment.variables
        else:
            path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
            found = os.environ | {"PATH": path}
        return found | {"DRUMLIN_BOOTSTRAP": self.address}


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

"""Says which calls of a process fail, and for how long: `faults.c`, preloaded, does as it is told.

A rule is in force from `inject` until `heal`, or until it has hit as often as it may. All
processes that were started with one injector's environment follow the same rules, and count
together.
"""

from __future__ import annotations

import errno
import hashlib
import mmap
import os
import shutil
import struct
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import Final, NamedTuple

from rig.jvm.jars import Unavailable

_SOURCE: Final = Path(__file__).with_name("faults.c")


class Call(IntEnum):
    """What may fail; the numbers are those of `faults.c`."""

    OPEN = 0
    CREATE = 1
    LIST = 2
    READ = 3
    WRITE = 4
    SYNC = 5
    SYNC_FOLDER = 6
    RENAME = 7
    REMOVE = 8
    TRUNCATE = 9
    SET_ASIDE = 10
    MAKE_FOLDER = 11
    ACCEPT = 12
    SOCKET = 13
    PIPE = 14
    EPOLL = 15
    WATCH = 16
    MAP = 17
    THREAD = 18


class Action(IntEnum):
    """What happens to a call that is hit."""

    FAIL = 0
    #: Half of what is written is there, and the call fails.
    HALF = 1
    KILL_BEFORE = 2
    KILL_AFTER = 3


DESCRIPTORS: Final = frozenset(
    {Call.OPEN, Call.CREATE, Call.LIST, Call.ACCEPT, Call.SOCKET, Call.PIPE, Call.EPOLL}
)
ROOM: Final = frozenset(
    {Call.CREATE, Call.WRITE, Call.RENAME, Call.SET_ASIDE, Call.MAKE_FOLDER, Call.TRUNCATE}
)
#: All that a device does, which fails with EIO.
DISK: Final = frozenset(call for call in Call if call <= Call.MAKE_FOLDER)
CHANGES: Final = DISK - {Call.OPEN, Call.LIST, Call.READ}


class Rule(NamedTuple):
    """Which calls fail.

    after: so many of them pass before.
    times: so many fail then; None: all of them.
    part: of the path of the file, if they are to be those of some files only.
    """

    calls: Iterable[Call]
    code: int = errno.EIO
    after: int = 0
    times: int | None = None
    part: str = ""
    action: Action = Action.FAIL


_RULE: Final = struct.Struct("=8q192s")
_ACTIVE: Final = struct.Struct("=q")
_COUNTS: Final = struct.Struct("=2q")
_COUNTS_AT: Final = 6 * 8
_FIRST_RULE_AT: Final = 256
_RULES: Final = 8
_PAGE_BYTES: Final = 4096


def library() -> Path:
    """The compiled library; it is kept for the next time.

    Raises:
        Unavailable: there is no compiler.
    """
    source = _SOURCE.read_bytes()
    name = f"faults-{hashlib.sha256(source).hexdigest()[:16]}.so"
    path = Path(__file__).parents[3] / ".cache" / "faults" / name
    if path.exists():
        return path
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise Unavailable("no C compiler for the library that injects faults")
    path.parent.mkdir(parents=True, exist_ok=True)
    own = path.with_suffix(f".{os.getpid()}")
    command = [compiler, "-O1", "-shared", "-fPIC", "-o", str(own), str(_SOURCE), "-ldl"]
    subprocess.run(command, check=True, timeout=120)
    own.rename(path)
    return path


class Injector:
    """The rules for some processes, in a file that they share."""

    def __init__(self, path: Path) -> None:
        """
        Raises:
            Unavailable: there is no compiler.
        """
        self._library = library()
        self._path = path
        path.write_bytes(bytes(_PAGE_BYTES))
        with path.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), _PAGE_BYTES)

    def environment(self) -> dict[str, str]:
        """For a process that is to follow the rules; they may change while it runs."""
        return {"LD_PRELOAD": str(self._library), "FAULTS_PAGE": str(self._path)}

    def inject(self, *rules: Rule) -> None:
        """These rules, in place of those before."""
        assert len(rules) <= _RULES
        self.heal()
        for number, rule in enumerate(rules):
            mask = sum(1 << call for call in set(rule.calls))
            times = -1 if rule.times is None else rule.times
            part = rule.part.encode()
            fields = (0, mask, rule.code, rule.after, times, rule.action, 0, 0, part)
            _RULE.pack_into(self._page, _at(number), *fields)
            _ACTIVE.pack_into(self._page, _at(number), 1)

    def heal(self) -> int:
        """Nothing fails from now on; how many calls were hit."""
        for number in range(_RULES):
            _ACTIVE.pack_into(self._page, _at(number), 0)
        return self.hits

    @contextmanager
    def injected(self, *rules: Rule) -> Iterator[None]:
        self.inject(*rules)
        try:
            yield
        finally:
            self.heal()

    @property
    def hits(self) -> int:
        """By the rules that were given last."""
        return sum(self._counts(number)[1] for number in range(_RULES))

    @property
    def seen(self) -> int:
        """How many calls the rules that were given last are about."""
        return sum(self._counts(number)[0] for number in range(_RULES))

    def shift_clock(self, off_ms: int) -> None:
        """How far the wall clock is off; deadlines are measured with another one."""
        _ACTIVE.pack_into(self._page, 0, off_ms)

    def _counts(self, number: int) -> tuple[int, int]:
        seen, hits = _COUNTS.unpack_from(self._page, _at(number) + _COUNTS_AT)
        return seen, hits


def _at(number: int) -> int:
    return _FIRST_RULE_AT + number * _RULE.size

"""The forms of a line: text for people, or a JSON object for programs that collect lines.

A JSON line has `time`, `level`, `logger`, `message`, `thread`, and if there are: `task` (of the
event loop), `process` (of several brokers), `exception` (the traceback, as one text), `audit` (an
event with its fields), `left_out` (lines that it stands for). New fields may be added; these stay.
"""

from __future__ import annotations

import asyncio
import enum
import json
import logging
import sys
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Final

FORM_KEY: Final = "drumlin.logging.format"
#: The attribute of a line for the fields of an event, and that for the lines that it stands for.
AUDIT_FIELDS: Final = "audit_fields"
LEFT_OUT: Final = "left_out"
#: Kafka's names, which the config APIs use for loggers as well.
LEVELS: Final = {"WARNING": "WARN", "CRITICAL": "FATAL", "Level 5": "TRACE"}
#: Characters of a text: collectors drop lines that are far longer.
_SHOWN_MAX: Final = 32_000


class Form(enum.StrEnum):
    """The form of all lines of a process."""

    TEXT = "text"
    JSON = "json"

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Form:
        """The form that a configuration asks for, which need not be valid."""
        return cls.JSON if properties.get(FORM_KEY) == cls.JSON else cls.TEXT


def formatter(form: Form, process: str) -> logging.Formatter:
    """The formatter of a process's lines; `process` is its name, if there are several."""
    if form is Form.JSON:
        return _JsonLines(process)
    said = f"[{process}] " if process else ""
    return _TextLines(f"%(asctime)s %(levelname)-7s {said}%(name)s: %(message)s")


def say(form: Form, text: str, *, is_fatal: bool = True, process: str = "") -> None:
    """Tell the operator something on standard error before, or instead of, serving."""
    if form is Form.JSON:
        level = logging.CRITICAL if is_fatal else logging.WARNING
        record = logging.LogRecord("drumlin", level, __file__, 0, "%s", (text,), None)
        text = _JsonLines(process).format(record)
    else:
        said = f"{process}: " if process else ""
        text = f"drumlin server: {said}{text}"
    print(text, file=sys.stderr, flush=True)  # noqa: T201


def message_of(record: logging.LogRecord) -> str:
    """The message of a line, even if its arguments do not fit, or cannot be shown."""
    try:
        return record.getMessage()
    except Exception as error:  # noqa: BLE001  an argument's own `__str__` may raise anything
        return f"{record.msg} (its arguments cannot be shown: {type(error).__name__}: {error})"


def log_what_is_printed() -> None:
    """Have uncaught exceptions, ignored ones and Python's warnings logged, which are printed
    otherwise.
    """
    log = logging.getLogger("drumlin")

    def uncaught(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        log.critical("the process ends by an exception", exc_info=(kind, error, trace))

    def in_a_thread(args: threading.ExceptHookArgs) -> None:
        if args.exc_value is not None and not isinstance(args.exc_value, SystemExit):
            log.error("a thread ends by an exception", exc_info=args.exc_value)

    def ignored(args: sys.UnraisableHookArgs) -> None:
        where = "" if args.object is None else f" in {args.object!r}"
        text = args.err_msg or "an exception is ignored"
        log.error("%s%s", text, where, exc_info=args.exc_value)

    logging.captureWarnings(True)
    sys.excepthook, threading.excepthook, sys.unraisablehook = uncaught, in_a_thread, ignored


class _TextLines(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  Python's
        """A line, whatever a client's names have in them: they cannot begin another one."""
        if not record.message.isprintable():
            record.message = "".join(map(_printable, record.message))
        return super().formatMessage(record)


class _JsonLines(logging.Formatter):
    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        audit = getattr(record, AUDIT_FIELDS, None)
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        shown: dict[str, object] = {
            "time": when.replace("+00:00", "Z"),
            "level": LEVELS.get(record.levelname, record.levelname),
            "logger": record.name,
            "message": message_of(record) if audit is None else audit["event"],
            "thread": record.threadName,
            "task": _task_name(),
            "process": self._process or None,
            "exception": self._exception(record),
            "audit": audit,
            "left_out": getattr(record, LEFT_OUT, None),
        }
        told = {key: _fit(value) for key, value in shown.items() if value is not None}
        return json.dumps(told, default=str)

    def _exception(self, record: logging.LogRecord) -> str | None:
        if record.exc_info and record.exc_info[0] is not None:
            return self.formatException(record.exc_info)
        return None


def _task_name() -> str | None:
    """The name of the event loop's task that logs, as it is formatted where it is logged."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop runs in this thread
        return None
    return None if task is None else task.get_name()


def _printable(character: str) -> str:
    return character if character.isprintable() else repr(character)[1:-1]


def _fit(value: object) -> object:
    """A value whose texts are cut, and without halves of surrogate pairs, of which names of files
    may have some, and which many readers of JSON refuse.
    """
    if isinstance(value, Mapping):
        return {key: _fit(each) for key, each in value.items()}
    if not isinstance(value, str):
        return value
    over = len(value) - _SHOWN_MAX
    text = f"{value[:_SHOWN_MAX]}… ({over} characters more)" if over > 0 else value
    return text.encode(errors="backslashreplace").decode()

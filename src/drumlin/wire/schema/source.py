"""The source of a Python function under construction: its lines, and the values that they use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Source:
    """The body of one function."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._indent = 1
        self._names: dict[str, Any] = {}

    def line(self, text: str) -> None:
        self._lines.append("    " * self._indent + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Write `head`, and indent the lines of the `with` block below it."""
        self.line(head)
        self._indent += 1
        yield
        self._indent -= 1

    def name(self, prefix: str, value: Any) -> str:
        """The name of the value in the source."""
        for known, other in self._names.items():
            if other is value and known.startswith(f"_{prefix}"):
                return known
        name = f"_{prefix}{len(self._names)}"
        self._names[name] = value
        return name

    def function(self, head: str, what: str) -> Any:
        """Compile the function with this `head`; tracebacks name it `what`."""
        name = head[: head.index("(")]
        text = "\n".join((f"def {head}:", *self._lines))
        exec(compile(text, f"<{what}>", "exec"), self._names)  # noqa: S102
        return self._names[name]

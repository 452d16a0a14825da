"""Text that must not be shown by accident: a password, a key, a token.

Owns how it is displayed: as `***`, wherever it is printed, logged or formatted. Only `reveal`
gives the text, to the code that sends it.
"""

from __future__ import annotations

from typing import Final

_MASK: Final = "***"


class Secret:
    """Compares and pickles by its text; never shows it."""

    __slots__ = ("_text",)

    def __init__(self, text: str | Secret) -> None:
        self._text: str = text._text if isinstance(text, Secret) else text

    def reveal(self) -> str:
        """The text itself."""
        return self._text

    def hidden_in(self, message: str) -> str:
        """`message` without the text, in case a peer repeated it there."""
        return message.replace(self._text, _MASK) if self._text else message

    def __repr__(self) -> str:
        return _MASK

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash((Secret, self._text))

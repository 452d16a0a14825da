"""Checks of the enumerated fields in ACLs and their filters."""

from __future__ import annotations

from typing import Final

from drumlin.wire.error_codes import MalformedMessage

#: UNKNOWN in all four enumerations: a value that the sender itself does not know.
_UNKNOWN: Final = 0


def check_elements(*elements: int) -> None:
    """Check the fields of one ACL or filter.

    Raises:
        MalformedMessage: a field has an unknown value; Apache Kafka closes the connection, too.
    """
    if _UNKNOWN in elements:
        raise MalformedMessage("an element of an ACL is UNKNOWN")

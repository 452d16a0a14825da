"""The numbers in ACLs and their filters: which of them no client may send."""

from __future__ import annotations

from typing import Final

from drumlin.wire.error_codes import MalformedMessage

#: A type of resource or pattern, an operation or a permission that the sender itself does not know.
_UNKNOWN: Final = 0


def check_elements(*elements: int) -> None:
    """Of one ACL or filter.

    Raises:
        MalformedMessage: one is unknown; Apache Kafka, too, closes the connection then.
    """
    if _UNKNOWN in elements:
        raise MalformedMessage("an element of an ACL is UNKNOWN")

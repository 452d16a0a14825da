"""The one form in which IP addresses are compared, however they were written."""

from __future__ import annotations

import ipaddress
from functools import lru_cache


@lru_cache(maxsize=4096)
def plain_address(text: str) -> str:
    """An address in its normal form, without a scope; what is no address stays as it is.

    Java writes all parts of an IPv6 address ("0:0:0:0:0:0:0:1"), Python the shortest form ("::1").
    """
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return text
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def is_address(text: str) -> bool:
    """Whether this is an IP address, of IPv4 or IPv6."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True

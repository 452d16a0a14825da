"""The names and addresses of this machine, under which clients may connect to it."""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_SIOCGIFADDR: Final = 0x8915
_IPV6_ADDRESSES: Final = Path("/proc/net/if_inet6")


def hosts_of_machine() -> list[str]:
    """The names and then the addresses, without duplicates. May wait for a name server."""
    names = ["localhost", socket.gethostname(), socket.getfqdn()]
    addresses = ["127.0.0.1", "::1", *_ipv4_addresses(), *_ipv6_addresses()]
    return list(dict.fromkeys(each for each in (*names, *addresses) if each))


def _ipv4_addresses() -> Iterator[str]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # the interface has none
                request = struct.pack("256s", name.encode()[:15])
                answer = fcntl.ioctl(sock.fileno(), _SIOCGIFADDR, request)
                yield socket.inet_ntoa(answer[20:24])


def _ipv6_addresses() -> Iterator[str]:
    try:
        lines = _IPV6_ADDRESSES.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        address = ipaddress.IPv6Address(int(line.split()[0], 16))
        if not address.is_link_local:  # needs the name of an interface
            yield str(address)

"""The kinds of processors that there are kernels for, and which of them this process runs on.

Linux says what a processor can do in /proc/cpuinfo.
"""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from typing import Final, NamedTuple

X86_64: Final = "x86_64"
AARCH64: Final = "aarch64"


class Variant(NamedTuple):
    """Processors that run the same code: what LLVM calls them, what Linux says of them."""

    name: str
    machine: str
    cpu: str
    features: str  # beyond those of `cpu`
    flags: frozenset[str]


def _level(number: int, flags: str) -> Variant:
    """A level of the x86-64 ABI; each has all that the ones before it have."""
    name = f"x86-64-v{number}"
    return Variant(name, X86_64, name, "", frozenset(flags.split()))


_V2: Final = "cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3"
_V3: Final = f"{_V2} abm avx avx2 bmi1 bmi2 f16c fma movbe xsave"
_V4: Final = f"{_V3} avx512f avx512bw avx512cd avx512dq avx512vl"

#: Of each machine, the best comes first.
VARIANTS: Final = (
    _level(4, _V4),
    _level(3, _V3),
    _level(2, _V2),
    Variant("aarch64", AARCH64, "generic", "+crc", frozenset({"asimd", "crc32"})),
)


def usable_variants(cpuinfo: Path = Path("/proc/cpuinfo")) -> list[Variant]:
    """The variants whose code this processor runs, the best first."""
    if sys.platform != "linux" or sys.maxsize < 2**32:
        return []
    machine, flags = platform.machine(), _flags(cpuinfo)
    return [each for each in VARIANTS if each.machine == machine and each.flags <= flags]


def machine_as_told(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The machine, and what its processor lacks for the least of its variants."""
    machine = platform.machine()
    variants = [each for each in VARIANTS if each.machine == machine]
    lacking = variants[-1].flags - _flags(cpuinfo) if variants else frozenset[str]()
    without = f" without {', '.join(sorted(lacking))}" if lacking else ""
    return f"{machine}{without}, {sys.platform}"


def _flags(cpuinfo: Path) -> set[str]:
    """What the first processor can do; the others are assumed to do as much."""
    try:
        with cpuinfo.open() as lines:
            for line in lines:
                name, _, value = line.partition(":")
                if name.strip() in {"flags", "Features"}:
                    return set(value.split())
    except OSError:
        pass  # nothing is known of it
    return set()

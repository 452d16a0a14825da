"""The kinds of processors for which there are kernels, and which of them this process can use.

The features of the processor are read from Linux's /proc/cpuinfo.
"""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from typing import Final, NamedTuple

X86_64: Final = "x86_64"
AARCH64: Final = "aarch64"


class Variant(NamedTuple):
    """A kind of processor that runs the same code, with its names in LLVM and in /proc/cpuinfo."""

    name: str
    machine: str
    cpu: str
    features: str  # in addition to those of `cpu`
    flags: frozenset[str]


def _level(number: int, flags: str) -> Variant:
    """A level of the x86-64 ABI; it includes the features of all lower levels."""
    name = f"x86-64-v{number}"
    return Variant(name, X86_64, name, "", frozenset(flags.split()))


_V2: Final = "cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3"
_V3: Final = f"{_V2} abm avx avx2 bmi1 bmi2 f16c fma movbe xsave"
_V4: Final = f"{_V3} avx512f avx512bw avx512cd avx512dq avx512vl"

#: For each machine, the best variant comes first.
VARIANTS: Final = (
    _level(4, _V4),
    _level(3, _V3),
    _level(2, _V2),
    Variant("aarch64", AARCH64, "generic", "+crc", frozenset({"asimd", "crc32"})),
)


def usable_variants(cpuinfo: Path = Path("/proc/cpuinfo")) -> list[Variant]:
    """The variants that this processor supports, the best first."""
    if sys.platform != "linux" or sys.maxsize < 2**32:
        return []
    machine, flags = platform.machine(), _flags(cpuinfo)
    return [each for each in VARIANTS if each.machine == machine and each.flags <= flags]


def machine_as_told(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The machine's name, and the features its processor lacks for the lowest variant."""
    machine = platform.machine()
    variants = [each for each in VARIANTS if each.machine == machine]
    lacking = variants[-1].flags - _flags(cpuinfo) if variants else frozenset[str]()
    without = f" without {', '.join(sorted(lacking))}" if lacking else ""
    return f"{machine}{without}, {sys.platform}"


def _flags(cpuinfo: Path) -> set[str]:
    """The features of the first processor; the others are assumed to have the same."""
    try:
        with cpuinfo.open() as lines:
            for line in lines:
                name, _, value = line.partition(":")
                if name.strip() in {"flags", "Features"}:
                    return set(value.split())
    except OSError:
        pass  # the features are unknown
    return set()

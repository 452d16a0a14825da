"""Opens the library of kernels for this processor, and sets the signatures of its functions.

The libraries are compiled when the package is built (`toolchain/`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from drumlin.records.kernels.layout import COMPACTION_SIGNATURES, SIGNATURES, VALUES_SIGNATURES
from drumlin.records.kernels.library_files import are_outdated, library_path
from drumlin.records.kernels.processor import machine_as_told, usable_variants

_TYPES: Final[dict[str, Any]] = {"p": ctypes.c_void_p, "l": ctypes.c_void_p, "i": ctypes.c_int64}


class Kernels(NamedTuple):
    """The kernels as functions of addresses and integers. They run without the GIL."""

    survey: Callable[..., int]
    inspect: Callable[..., int]
    find_bodies: Callable[..., int]
    decode: Callable[..., int]
    write_lines: Callable[..., int]
    encode: Callable[..., int]
    fill: Callable[..., int]
    checksum: Callable[..., int]
    murmur2: Callable[..., int]
    scan: Callable[..., int]
    index_rows: Callable[..., int]
    reindex_rows: Callable[..., int]
    share_rows: Callable[..., int]
    mark_last: Callable[..., int]


class CompactionKernels(NamedTuple):
    """The kernels of compaction, with the same kinds of arguments."""

    mark_survivors: Callable[..., int]
    map_batches: Callable[..., int]
    map_records: Callable[..., int]
    filter_batches: Callable[..., int]
    filter_records: Callable[..., int]
    keep_latest: Callable[..., int]
    keep_latest_of: Callable[..., int]
    index_latest: Callable[..., int]
    walk: Callable[..., int]
    lay_out: Callable[..., int]


class ValueKernels(NamedTuple):
    """The kernels of typed values, with the same kinds of arguments."""

    decode_avro: Callable[..., int]
    decode_protobuf: Callable[..., int]


class AllKernels(NamedTuple):
    """All kernels of one library."""

    records: Kernels
    compaction: CompactionKernels
    values: ValueKernels


def load() -> AllKernels:
    """The kernels of the best variant that this processor supports.

    Raises:
        OSError: no library supports this processor, or the library can't be opened.
    """
    if are_outdated():
        raise OSError("their sources have changed: python -m drumlin.records.kernels.toolchain")
    for variant in usable_variants():
        try:
            return load_library(library_path(variant.name))
        except FileNotFoundError:
            continue
    raise OSError(
        f"the package has no library for this machine ({machine_as_told()}); there are some for "
        "Linux on x86-64-v2 or later, and on arm64 with CRC instructions: a virtual machine may "
        "need another type of CPU"
    )


def load_library(path: Path) -> AllKernels:
    """The kernels of one library. Raises OSError if it can't be opened."""
    library = _opened(path)
    return AllKernels(
        Kernels(**_functions(library, SIGNATURES)),
        CompactionKernels(**_functions(library, COMPACTION_SIGNATURES)),
        ValueKernels(**_functions(library, VALUES_SIGNATURES)),
    )


def _opened(path: Path) -> ctypes.CDLL:
    if path.exists():
        return ctypes.CDLL(str(path))
    # The package may be in an archive, as Spark sends it to workers.
    from importlib import resources  # slow to import, and rarely needed

    with resources.as_file(resources.files(__package__) / path.parent.name / path.name) as copy:
        return ctypes.CDLL(str(copy))


def _functions(library: ctypes.CDLL, signatures: Mapping[str, str]) -> dict[str, Any]:
    functions = {}
    for name, parameters in signatures.items():
        # By index, as that creates an object that no other caller can change.
        function = functions[name] = library[name]
        function.restype = ctypes.c_int64
        function.argtypes = [_TYPES[each] for each in parameters]
    return functions

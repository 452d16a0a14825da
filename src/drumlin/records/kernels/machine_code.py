"""Machine code -> functions, by llvmlite alone: numba's compiler is not imported.

That costs a process 50 ms and about 10 MB of its own memory (and 45 MB of file that all
processes share) instead of half a second and 100 MB.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import llvmlite.binding as llvm

from drumlin.records.kernels.layout import (
    COMPACTION_SIGNATURES,
    SIGNATURES,
    VALUES_SIGNATURES,
)

_TYPES: Final = {"p": ctypes.c_void_p, "l": ctypes.c_void_p, "i": ctypes.c_int64}


class Kernels(NamedTuple):
    """The kernels as functions of addresses and integers. They run without the GIL."""

    survey: Callable[..., int]
    inspect: Callable[..., int]
    find_bodies: Callable[..., int]
    decode: Callable[..., int]
    encode: Callable[..., int]
    fill: Callable[..., int]
    checksum: Callable[..., int]
    murmur2: Callable[..., int]
    scan: Callable[..., int]
    index_rows: Callable[..., int]
    reindex_rows: Callable[..., int]
    share_rows: Callable[..., int]
    mark_last: Callable[..., int]
    engine: Any  # owns the memory that the code lies in


class CompactionKernels(NamedTuple):
    """The kernels of compaction, likewise."""

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
    engine: Any  # owns the memory that the code lies in


class ValueKernels(NamedTuple):
    """The kernels of typed values, likewise."""

    decode_avro: Callable[..., int]
    decode_protobuf: Callable[..., int]
    engine: Any  # owns the memory that the code lies in


def processor() -> tuple[str, str]:
    """Name and features of the processor that code is made for."""
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def target_machine() -> Any:
    """What turns LLVM's language into code for this very processor."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    name, features = processor()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=name, features=features, opt=3, reloc="default", codemodel="jitdefault", jit=True
    )


def load(object_code: bytes) -> Kernels:
    """The kernels in an object file that `compile.py` has made for this processor."""
    return Kernels(**_functions(object_code, SIGNATURES))


def load_for_compaction(object_code: bytes) -> CompactionKernels:
    """Load the kernels of compaction, likewise."""
    return CompactionKernels(**_functions(object_code, COMPACTION_SIGNATURES))


def load_for_values(object_code: bytes) -> ValueKernels:
    """Load the kernels of typed values, likewise."""
    return ValueKernels(**_functions(object_code, VALUES_SIGNATURES))


def _functions(object_code: bytes, signatures: Mapping[str, str]) -> dict[str, Any]:
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(object_code))
    engine.finalize_object()
    functions: dict[str, Any] = {"engine": engine}
    for name, parameters in signatures.items():
        prototype = ctypes.CFUNCTYPE(ctypes.c_int64, *(_TYPES[each] for each in parameters))
        functions[name] = prototype(engine.get_function_address(name))
    return functions

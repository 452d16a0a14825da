"""The child that compiles kernels: `python -m drumlin.records.kernels.compile SET FILE`.

numba compiles each kernel to LLVM's language; what is kept of that is the kernels and what
they call, without numba's wrappers for Python. The result is one object file of machine code
for this very processor. `loader.py` runs this; numba stays in the child.
"""

from __future__ import annotations

import fcntl
import sys
from pathlib import Path
from typing import Any, Final

import llvmlite.binding as llvm
from numba import cfunc, types

from drumlin.records.kernels import cache, machine_code
from drumlin.records.kernels.code.avro import decode_avro
from drumlin.records.kernels.code.checksum import checksum
from drumlin.records.kernels.code.decode import decode
from drumlin.records.kernels.code.encode import encode
from drumlin.records.kernels.code.fill import fill
from drumlin.records.kernels.code.filter_batches import filter_batches
from drumlin.records.kernels.code.filter_records import filter_records
from drumlin.records.kernels.code.find_bodies import find_bodies
from drumlin.records.kernels.code.inspect import inspect
from drumlin.records.kernels.code.latest import (
    index_latest,
    keep_latest,
    keep_latest_of,
    walk,
)
from drumlin.records.kernels.code.lay_out import lay_out
from drumlin.records.kernels.code.map_batches import map_batches, map_records
from drumlin.records.kernels.code.murmur2 import murmur2
from drumlin.records.kernels.code.offset_map import mark_survivors
from drumlin.records.kernels.code.protobuf import decode_protobuf
from drumlin.records.kernels.code.row_index import index_rows, mark_last, reindex_rows, share_rows
from drumlin.records.kernels.code.scan import scan
from drumlin.records.kernels.code.survey import survey
from drumlin.records.kernels.layout import COMPACTION_SIGNATURES, SIGNATURES, VALUES_SIGNATURES

_SETS: Final[dict[str, dict[str, Any]]] = {
    "kernels": {
        "survey": survey,
        "inspect": inspect,
        "find_bodies": find_bodies,
        "decode": decode,
        "encode": encode,
        "fill": fill,
        "checksum": checksum,
        "murmur2": murmur2,
        "scan": scan,
        "index_rows": index_rows,
        "reindex_rows": reindex_rows,
        "share_rows": share_rows,
        "mark_last": mark_last,
    },
    "compaction": {
        "mark_survivors": mark_survivors,
        "map_batches": map_batches,
        "map_records": map_records,
        "filter_batches": filter_batches,
        "filter_records": filter_records,
        "keep_latest": keep_latest,
        "keep_latest_of": keep_latest_of,
        "index_latest": index_latest,
        "walk": walk,
        "lay_out": lay_out,
    },
    "values": {"decode_avro": decode_avro, "decode_protobuf": decode_protobuf},
}
# All that machine code may ask of its context: every process that loads it has the C library.
_ALLOWED_SYMBOLS: Final = {"memcpy", "memmove", "memset"}


def main() -> None:
    set_name, path = sys.argv[1], Path(sys.argv[2])
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if cache.read(path) is None:  # no other process was faster
            cache.write(path, compile_kernels(set_name))


def compile_kernels(set_name: str) -> bytes:
    """An object file that defines every kernel of a set by its name."""
    target = machine_code.target_machine()
    module = llvm.parse_assembly("")
    for name, kernel in _SETS[set_name].items():
        module.link_in(_alone(name, kernel, target))
    undefined = {
        function.name
        for function in module.functions
        if function.is_declaration and not function.name.startswith("llvm.")
    }
    if not undefined <= _ALLOWED_SYMBOLS:
        raise RuntimeError(f"kernels need more than memory: {sorted(undefined)}")
    return bytes(target.emit_object(module))


def _alone(name: str, kernel: Any, target: Any) -> Any:
    """One kernel as a module of its own in which nothing else is visible from outside."""
    signatures = SIGNATURES | COMPACTION_SIGNATURES | VALUES_SIGNATURES
    compiled = cfunc(_signature(signatures[name]), error_model="numpy")(kernel)
    module = llvm.parse_assembly(compiled.inspect_llvm())
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration:
            value.linkage = llvm.Linkage.internal
    entry = module.get_function(compiled.native_name)
    entry.linkage = llvm.Linkage.external
    entry.name = name
    # Optimised again, numba's handling of exceptions turns out to be unreachable: no kernel
    # raises. With it goes every use of Python's own functions.
    builder = llvm.create_pass_builder(target, llvm.create_pipeline_tuning_options(speed_level=3))
    builder.getModulePassManager().run(module, builder)
    return module


def _signature(parameters: str) -> Any:
    pointer: Any = types.CPointer
    kinds: dict[str, Any] = {
        "p": pointer(types.uint8),
        "l": pointer(types.int64),
        "i": types.int64,
    }
    return types.int64(*(kinds[parameter] for parameter in parameters))


if __name__ == "__main__":
    main()

"""Translates the kernels into LLVM's intermediate representation, for any processor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import llvmlite.binding as llvm
from numba import cfunc, types

from drumlin.records.kernels.code.avro import decode_avro
from drumlin.records.kernels.code.checksum import checksum
from drumlin.records.kernels.code.crc32c import STEPS
from drumlin.records.kernels.code.decode import decode
from drumlin.records.kernels.code.encode import encode
from drumlin.records.kernels.code.fill import fill
from drumlin.records.kernels.code.filter_batches import filter_batches
from drumlin.records.kernels.code.filter_records import filter_records
from drumlin.records.kernels.code.find_bodies import find_bodies
from drumlin.records.kernels.code.inspect import inspect
from drumlin.records.kernels.code.latest import index_latest, keep_latest, keep_latest_of, walk
from drumlin.records.kernels.code.lay_out import lay_out
from drumlin.records.kernels.code.map_batches import map_batches, map_records
from drumlin.records.kernels.code.murmur2 import murmur2
from drumlin.records.kernels.code.offset_map import mark_survivors
from drumlin.records.kernels.code.protobuf import decode_protobuf
from drumlin.records.kernels.code.row_index import index_rows, mark_last, reindex_rows, share_rows
from drumlin.records.kernels.code.scan import scan
from drumlin.records.kernels.code.survey import survey
from drumlin.records.kernels.code.write_lines import write_lines
from drumlin.records.kernels.layout import COMPACTION_SIGNATURES, SIGNATURES, VALUES_SIGNATURES

KERNELS: Final[dict[str, Callable[..., int]]] = {
    "survey": survey,
    "inspect": inspect,
    "find_bodies": find_bodies,
    "decode": decode,
    "write_lines": write_lines,
    "encode": encode,
    "fill": fill,
    "checksum": checksum,
    "murmur2": murmur2,
    "scan": scan,
    "index_rows": index_rows,
    "reindex_rows": reindex_rows,
    "share_rows": share_rows,
    "mark_last": mark_last,
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
    "decode_avro": decode_avro,
    "decode_protobuf": decode_protobuf,
}
KERNEL_SIGNATURES: Final = SIGNATURES | COMPACTION_SIGNATURES | VALUES_SIGNATURES


def in_llvm(
    functions: Mapping[str, Callable[..., int]], signatures: Mapping[str, str]
) -> list[str]:
    """Each function as a separate module that exports no other function."""
    for name in STEPS:
        # numba needs an address for every name. Each variant defines these steps; this address is
        # never called.
        llvm.add_symbol(name, 1)
    return [_module(name, functions[name], signatures[name]) for name in functions]


def _module(name: str, function: Callable[..., int], parameters: str) -> str:
    compiled = cfunc(_signature(parameters), error_model="numpy")(function)
    module = llvm.parse_assembly(compiled.inspect_llvm())
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration:
            value.linkage = llvm.Linkage.internal
    entry = module.get_function(compiled.native_name)
    entry.linkage = llvm.Linkage.external
    entry.name = name
    # Most of what numba adds for callers in Python is unused now.
    unused = llvm.create_new_module_pass_manager()
    unused.add_global_dead_code_eliminate_pass()
    machine = llvm.Target.from_default_triple().create_target_machine()
    unused.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options()))
    return str(module)


def _signature(parameters: str) -> Any:
    pointer: Any = types.CPointer
    kinds: dict[str, Any] = {
        "p": pointer(types.uint8),
        "l": pointer(types.int64),
        "i": types.int64,
    }
    return types.int64(*(kinds[parameter] for parameter in parameters))

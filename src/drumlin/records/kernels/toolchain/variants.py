"""Compiles the modules of all kernels into a library for one kind of processor.

The variants are declared in `records/kernels/processor.py`, which chooses one when a process runs.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import llvmlite.binding as llvm

from drumlin.records.kernels.code.crc32c import BYTE_STEP, STEPS, WORD_STEP
from drumlin.records.kernels.processor import AARCH64, X86_64, Variant
from drumlin.records.kernels.toolchain.shared_object import link

# The only functions that the machine code may import: every process has the C library loaded.
_ALLOWED_SYMBOLS: Final = {"memcpy", "memmove", "memset"}


class _Target(NamedTuple):
    triple: str
    crc32c: str  # the steps of a CRC32C, with instructions of all these processors


_TARGETS: Final = {
    X86_64: _Target(
        "x86_64-unknown-linux-gnu",
        f"""
        declare i64 @llvm.x86.sse42.crc32.64.64(i64, i64)
        declare i32 @llvm.x86.sse42.crc32.32.8(i32, i8)
        define i64 @{WORD_STEP}(i64 %crc, i64 %word) alwaysinline {{
            %next = call i64 @llvm.x86.sse42.crc32.64.64(i64 %crc, i64 %word)
            ret i64 %next
        }}
        define i64 @{BYTE_STEP}(i64 %crc, i64 %byte) alwaysinline {{
            %state = trunc i64 %crc to i32
            %data = trunc i64 %byte to i8
            %next = call i32 @llvm.x86.sse42.crc32.32.8(i32 %state, i8 %data)
            %wide = zext i32 %next to i64
            ret i64 %wide
        }}
        """,
    ),
    AARCH64: _Target(
        "aarch64-unknown-linux-gnu",
        f"""
        declare i32 @llvm.aarch64.crc32cx(i32, i64)
        declare i32 @llvm.aarch64.crc32cb(i32, i32)
        define i64 @{WORD_STEP}(i64 %crc, i64 %word) alwaysinline {{
            %state = trunc i64 %crc to i32
            %next = call i32 @llvm.aarch64.crc32cx(i32 %state, i64 %word)
            %wide = zext i32 %next to i64
            ret i64 %wide
        }}
        define i64 @{BYTE_STEP}(i64 %crc, i64 %byte) alwaysinline {{
            %state = trunc i64 %crc to i32
            %data = trunc i64 %byte to i32
            %next = call i32 @llvm.aarch64.crc32cb(i32 %state, i32 %data)
            %wide = zext i32 %next to i64
            ret i64 %wide
        }}
        """,
    ),
}


def library(modules: list[str], variant: Variant) -> bytes | None:
    """The shared library for this variant; None if this LLVM does not support its machine."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    try:
        target = llvm.Target.from_triple(_TARGETS[variant.machine].triple)
    except RuntimeError:
        return None
    return link(_object_file(modules, variant, target))


def _object_file(modules: list[str], variant: Variant, target: Any) -> bytes:
    """Position-independent code of all modules."""
    triple, steps = _TARGETS[variant.machine]
    machine = target.create_target_machine(
        cpu=variant.cpu, features=variant.features, opt=3, reloc="pic", codemodel="small"
    )
    whole = _for(machine, "", triple)
    for assembly in modules:
        module = _for(machine, assembly, triple)
        module.link_in(_for(machine, steps, triple))
        for name in STEPS:
            module.get_function(name).linkage = llvm.Linkage.internal
        # No kernel raises, so the optimiser finds numba's exception handling unreachable and
        # removes it, and with it every call of a function of Python.
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        builder = llvm.create_pass_builder(machine, options)
        builder.getModulePassManager().run(module, builder)
        whole.link_in(module)
    undefined = {
        function.name
        for function in whole.functions
        if function.is_declaration and not function.name.startswith("llvm.")
    }
    if not undefined <= _ALLOWED_SYMBOLS:
        raise RuntimeError(f"kernels need more than memory: {sorted(undefined)}")
    return bytes(machine.emit_object(whole))


def _for(machine: Any, assembly: str, triple: str) -> Any:
    lines = [
        line
        for line in assembly.splitlines()
        if not line.startswith(("target triple", "target datalayout"))
    ]
    head = [f'target datalayout = "{machine.target_data}"', f'target triple = "{triple}"']
    return llvm.parse_assembly("\n".join(head + lines))

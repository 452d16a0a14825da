"""The dialect of the kernels: decorators with types for mypy, and access to raw memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., Any])

Pointer = Any  # to bytes, int32s or int64s: indexed like an array, without bounds checks


def helper(function: F) -> F:
    """A function that kernels call; the compiler may inline it."""
    return cast(F, njit(error_model="numpy")(function))


def _inline(generator: Any) -> Any:
    """A function whose instructions are generated at each call."""
    return intrinsic(generator)


@_inline
def bytes_at(_context: Any, _address: Any) -> Any:
    """The memory at an address, as bytes."""
    return _pointer(types.uint8)


@_inline
def int32s_at(_context: Any, _address: Any) -> Any:
    """The memory at an address, as 32-bit integers."""
    return _pointer(types.int32)


@_inline
def int64s_at(_context: Any, _address: Any) -> Any:
    """The memory at an address, as 64-bit integers."""
    return _pointer(types.int64)


def _pointer(item: Any) -> Any:
    pointer_to: Any = types.CPointer
    pointer = pointer_to(item)

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(pointer))

    return pointer(types.int64), generate


@_inline
def copy_bytes(
    _context: Any, target: Any, target_start: Any, source: Any, source_start: Any, size: Any
) -> Any:
    """`target[target_start:][:size] = source[source_start:][:size]`; they must not overlap.

    A constant size compiles to a few instructions, any other to a call of memcpy.
    """

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        to, to_start, origin, origin_start, count = arguments
        byte_pointer = ir.IntType(8).as_pointer()
        memcpy = builder.module.declare_intrinsic(
            "llvm.memcpy", [byte_pointer, byte_pointer, ir.IntType(64)]
        )
        is_volatile = ir.Constant(ir.IntType(1), 0)
        ends = builder.gep(to, [to_start]), builder.gep(origin, [origin_start])
        builder.call(memcpy, [*ends, count, is_volatile])
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64, types.int64), generate

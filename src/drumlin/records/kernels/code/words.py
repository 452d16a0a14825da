"""64-bit words: unaligned little-endian loads and stores, wrapping arithmetic, prefetching.

In the dialect, sums must not overflow. Hashes need sums that wrap, which these functions provide.
All machines that numba compiles for are little-endian.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_WORD = ir.IntType(64)


def _inline(generator: Any) -> Any:
    """A function whose instructions are generated at each call."""
    return intrinsic(generator)


def _place(builder: Any, arguments: Any, bits: int) -> Any:
    pointer, position = arguments
    place = builder.gep(pointer, [position])
    return builder.bitcast(place, ir.IntType(bits).as_pointer())


@_inline
def load_word(_context: Any, data: Any, _position: Any) -> Any:
    """The eight bytes at a position."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.load(_place(builder, arguments, 64), align=1)

    return types.int64(data, types.int64), generate


@_inline
def store_word(_context: Any, data: Any, _position: Any, _word: Any) -> Any:
    """Write eight bytes at a position."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        pointer, position, word = arguments
        builder.store(word, _place(builder, (pointer, position), 64), align=1)
        return context.get_dummy_value()

    return types.void(data, types.int64, types.int64), generate


@_inline
def wrapping_add(_context: Any, _a: Any, _b: Any) -> Any:
    """The sum, modulo 2^64."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.add(*arguments)

    return types.int64(types.int64, types.int64), generate


@_inline
def rotate_left(_context: Any, _word: Any, _bits: Any) -> Any:
    """The word, rotated by 1 to 63 bits."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        word, bits = arguments
        rest = builder.sub(ir.Constant(_WORD, 64), bits)
        return builder.or_(builder.shl(word, bits), builder.lshr(word, rest))

    return types.int64(types.int64, types.int64), generate


@_inline
def shift_right(_context: Any, _word: Any, _bits: Any) -> Any:
    """The word, shifted right by 0 to 63 bits, filled with zeros."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.lshr(*arguments)

    return types.int64(types.int64, types.int64), generate


@_inline
def high_product(_context: Any, _a: Any, _b: Any) -> Any:
    """The upper 64 bits of the product of two unsigned words."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)
        factors = [builder.zext(each, wide) for each in arguments]
        product = builder.mul(*factors)
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), _WORD)

    return types.int64(types.int64, types.int64), generate


@_inline
def folded_product(_context: Any, _a: Any, _b: Any) -> Any:
    """The exclusive or of both halves of the product of two unsigned words."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(*(builder.zext(each, wide) for each in arguments))
        upper = builder.lshr(product, ir.Constant(wide, 64))
        return builder.trunc(builder.xor(product, upper), _WORD)

    return types.int64(types.int64, types.int64), generate


@_inline
def prefetch(_context: Any, data: Any, _position: Any) -> Any:
    """Prefetch memory into the cache; an invalid address has no effect."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        byte_pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte_pointer, number, number, number])
        function = builder.module.globals.get("llvm.prefetch.p0")
        if function is None:
            function = ir.Function(builder.module, kind, "llvm.prefetch.p0")
        # options: for writing; with high locality; data, not code
        options = [ir.Constant(number, value) for value in (1, 3, 1)]
        builder.call(function, [_place(builder, arguments, 8), *options])
        return context.get_dummy_value()

    return types.void(data, types.int64), generate

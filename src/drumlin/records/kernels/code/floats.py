"""Floating-point numbers as the bits that they are made of, which kernels copy like integers."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_SINGLE, _DOUBLE = ir.FloatType(), ir.DoubleType()
_INT, _LONG = ir.IntType(32), ir.IntType(64)


def _inline(generator: Any) -> Any:
    """A function that is generated as instructions, at its place of use."""
    return intrinsic(generator)


@_inline
def widened(_context: Any, _bits: Any) -> Any:
    """The bits of a double that is equal to the single of these bits."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        single = builder.bitcast(builder.trunc(arguments[0], _INT), _SINGLE)
        return builder.bitcast(builder.fpext(single, _DOUBLE), _LONG)

    return types.int64(types.int64), generate


@_inline
def as_double(_context: Any, _value: Any) -> Any:
    """The bits of the double that is closest to an integer."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(builder.sitofp(arguments[0], _DOUBLE), _LONG)

    return types.int64(types.int64), generate


@_inline
def as_single(_context: Any, _value: Any) -> Any:
    """The bits of the single that is closest to an integer."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        bits = builder.bitcast(builder.sitofp(arguments[0], _SINGLE), _INT)
        return builder.sext(bits, _LONG)

    return types.int64(types.int64), generate

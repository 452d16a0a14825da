"""Floating-point numbers as bits, which kernels copy like integers."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_SINGLE, _DOUBLE = ir.FloatType(), ir.DoubleType()
_INT, _LONG = ir.IntType(32), ir.IntType(64)


def _inline(generator: Any) -> Any:
    """A function whose instructions are generated at each call."""
    return intrinsic(generator)


@_inline
def widened(_context: Any, _bits: Any) -> Any:
    """The bits of a float32, converted to those of the equal float64."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        single = builder.bitcast(builder.trunc(arguments[0], _INT), _SINGLE)
        return builder.bitcast(builder.fpext(single, _DOUBLE), _LONG)

    return types.int64(types.int64), generate


@_inline
def as_double(_context: Any, _value: Any) -> Any:
    """The bits of the float64 that is closest to an integer."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(builder.sitofp(arguments[0], _DOUBLE), _LONG)

    return types.int64(types.int64), generate


@_inline
def as_single(_context: Any, _value: Any) -> Any:
    """The bits of the float32 that is closest to an integer."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        bits = builder.bitcast(builder.sitofp(arguments[0], _SINGLE), _INT)
        return builder.sext(bits, _LONG)

    return types.int64(types.int64), generate

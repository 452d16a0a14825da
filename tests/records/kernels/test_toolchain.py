"""What makes libraries of kernels, on small ones."""

from __future__ import annotations

import ctypes
import random
import struct
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c as crc32c_of

from drumlin.records.batch.crc_table import crc_table
from drumlin.records.kernels.processor import VARIANTS, usable_variants

pytest.importorskip("drumlin.records.kernels.toolchain", reason="a package has kernels as they are")
pytest.importorskip("numba")

from drumlin.records.kernels.code.crc32c import crc32c
from drumlin.records.kernels.code.dialect import copy_bytes
from drumlin.records.kernels.toolchain import machines
from drumlin.records.kernels.toolchain.compile import in_llvm
from drumlin.records.kernels.toolchain.object_file import FILE_HEADER
from drumlin.records.kernels.toolchain.shared_object import link
from drumlin.records.kernels.toolchain.variants import library


def checksum(data: Any, position: int, end: int, table: Any) -> int:
    return crc32c(data, position, end, table)


def copied(data: Any, size: int, target: Any) -> int:
    copy_bytes(target, 0, data, 0, size)
    return size


def raising(data: Any) -> int:
    if data[0] > 1:
        raise ValueError("kernels don't")
    return 0


@pytest.fixture(scope="module")
def modules() -> list[str]:
    return in_llvm({"checksum": checksum, "copied": copied}, {"checksum": "piil", "copied": "pip"})


def opened(content: bytes, path: Path) -> ctypes.CDLL:
    path.write_bytes(content)
    return ctypes.CDLL(str(path))


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda each: each.name)
def test_a_library_for_each_kind_of_processor(
    variant: Any, modules: list[str], tmp_path: Path
) -> None:
    content = library(modules, variant)
    if content is None:
        pytest.skip("this LLVM does not know such processors")
    assert struct.unpack_from("<H", content, 18)[0] in machines.MACHINES
    if variant not in usable_variants():
        return
    made = opened(content, tmp_path / "made.so")
    data = random.Random(1).randbytes(5000)
    for size in [*range(40), *range(760, 800), *range(1530, 1560), 4000]:
        for position in (0, 1, 7):
            made.checksum.restype = ctypes.c_int64
            found = made.checksum(
                data, ctypes.c_int64(position), ctypes.c_int64(position + size), crc_table()
            )
            assert found == crc32c_of(data[position : position + size])
    target = ctypes.create_string_buffer(5000)
    assert made.copied(data, ctypes.c_int64(5000), target) == 5000
    assert target.raw == data


def test_kernels_need_nothing_but_memory() -> None:
    module = in_llvm({"raising": raising}, {"raising": "p"})
    with pytest.raises(RuntimeError, match="need more than memory"):
        library(module, VARIANTS[0])


def test_what_is_no_object_file_is_not_linked() -> None:
    with pytest.raises(ValueError, match="not an object file"):
        link(b"\x7fELF" + bytes(FILE_HEADER.size))

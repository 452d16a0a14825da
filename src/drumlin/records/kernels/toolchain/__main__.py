"""Makes the libraries of this checkout, if a source has changed since they were made.

python -m drumlin.records.kernels.toolchain
"""

from __future__ import annotations

import os

# Before numba is imported: what it makes does not depend on the processor that builds the package.
# It optimises, too, although each variant is optimised by itself later: twice is 12 % faster.
os.environ |= {"NUMBA_OPT": "3", "NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}

import functools
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from drumlin.records.kernels import library_files
from drumlin.records.kernels.library_files import LIBRARIES, MADE_OF, library_path
from drumlin.records.kernels.processor import VARIANTS


def main() -> None:
    """Raises RuntimeError where no library can be made."""
    sources = library_files.digest()  # as they are now: they may change while this works
    if library_files.are_made_of(sources):
        return
    # Imports numba, which takes longer than to see that nothing has changed.
    from drumlin.records.kernels.toolchain.compile import KERNEL_SIGNATURES, KERNELS, in_llvm
    from drumlin.records.kernels.toolchain.variants import library

    modules = in_llvm(KERNELS, KERNEL_SIGNATURES)
    with ProcessPoolExecutor() as pool:
        made = pool.map(functools.partial(library, modules), VARIANTS)
        libraries = {
            variant.name: content
            for variant, content in zip(VARIANTS, made, strict=True)
            if content is not None
        }
    if not libraries:
        raise RuntimeError("this LLVM knows none of the processors that there may be kernels for")
    LIBRARIES.mkdir(exist_ok=True)
    for name, content in libraries.items():
        _replace(library_path(name), content)
    _replace(MADE_OF, sources.encode())


def _replace(path: Path, content: bytes) -> None:
    """Write a file that a process may have opened: it goes on with the old one.

    Durably: a process that opens a library of which a power failure left a part ends with SIGBUS.
    """
    partial = path.with_suffix(f".{os.getpid()}")
    with partial.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


if __name__ == "__main__":
    main()

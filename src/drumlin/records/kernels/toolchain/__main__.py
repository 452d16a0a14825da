"""Compiles the libraries of this checkout, if a source has changed since the last time.

python -m drumlin.records.kernels.toolchain
"""

from __future__ import annotations

import os

# Set before numba is imported, so that its output does not depend on the building machine's
# processor. numba optimises too, although each variant is optimised again later: with both
# optimisations, the kernels are 12 % faster.
os.environ |= {"NUMBA_OPT": "3", "NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}

import functools
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from drumlin.records.kernels import library_files
from drumlin.records.kernels.library_files import LIBRARIES, MADE_OF, library_path
from drumlin.records.kernels.processor import VARIANTS


def main() -> None:
    """Compile the libraries. Raises RuntimeError if this LLVM supports none of the processors."""
    sources = library_files.digest()  # read first: a source may change during the compilation
    if library_files.are_made_of(sources):
        return
    # Imports numba, which takes longer than the check for changes.
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
    """Replace a file; processes that have opened the old file keep it.

    The new file is flushed to disk first: a process that opened a library truncated by a power
    failure would end with SIGBUS.
    """
    partial = path.with_suffix(f".{os.getpid()}")
    with partial.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


if __name__ == "__main__":
    main()

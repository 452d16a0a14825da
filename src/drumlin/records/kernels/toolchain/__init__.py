"""Compiles the kernels into shared libraries when the package is built.

`compile.py` has numba translate the loops of `code/` into LLVM's intermediate representation, once;
`variants.py` compiles that into an object file for each kind of processor; `shared_object.py` links
the object file, since the machine that builds the package may have no linker. `__main__.py` runs
these steps unless no source has changed. The wheel contains the libraries, but neither this package
nor `code/`.
"""

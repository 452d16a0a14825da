"""Makes shared libraries of the kernels when the package is built; no package has this in it.

`compile.py` has numba turn the loops of `code/` into LLVM's language, once; `variants.py` makes an
object file of that for each kind of processor; `shared_object.py` links it, by itself, as there may
be no linker where the package is built. `__main__.py` does all that, and nothing where no source
has changed. The wheel holds the libraries, but neither this package nor `code/`.
"""

"""The source of the kernels, which numba compiles. Only the compiling child process imports this.

Kernels are written in a dialect: every value is a 64-bit signed integer or a pointer; the code
allocates nothing, raises nothing, and never calls Python. A kernel returns 0 or more on success,
and `~n` if the input is malformed at position n. Signed sums must not overflow, as the compiler
assumes that they do not. So numbers from the input are range-checked before they are added.
"""

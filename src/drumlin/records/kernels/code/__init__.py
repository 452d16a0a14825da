"""The kernels themselves, for numba to compile. Only the compiling child process imports this.

The dialect: every value is a 64-bit signed integer or a pointer, nothing is allocated, nothing
raises, nothing calls Python; a kernel returns 0 or more when it is done, and `~n` when the
input is malformed at n. Signed sums must not overflow (the compiler takes that as a promise),
so whatever comes from outside is bounded before it is added to.
"""

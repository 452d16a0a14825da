"""The codecs of record batches, and the rules for produced and for stored compressed bodies.

Must never decompress into more memory than the caller allows.
"""

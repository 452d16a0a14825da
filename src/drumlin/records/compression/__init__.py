"""The codecs of record batches, and which compressed bodies may come in or be read.

Never decompresses into more memory than it is allowed.
"""

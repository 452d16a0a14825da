"""Messages that are large or very many: read in place and written by packs, in all versions.

Nothing here copies records, or makes an object for each of a message's elements.
"""

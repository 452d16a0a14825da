"""Access to the file system: descriptors, removal, and the names of folders.

No other module of `storage` may open, rename or remove a file.
"""

"""The door to the file system: descriptors, removal, and the names of folders.

Nothing else in `storage` opens, renames or removes a file.
"""

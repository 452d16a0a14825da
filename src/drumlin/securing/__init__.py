"""`--secure`: a server with its own certificate authority, an administrator, and files with the
settings of clients.

All files are in the first log dir, and only the broker's user can read them.
"""

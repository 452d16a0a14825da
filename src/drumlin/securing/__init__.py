"""A server that is secure by one word: its own certificate authority, its administrator, and the
files by which clients connect.

All of it lies in the first log dir, readable by the broker's user alone.
"""

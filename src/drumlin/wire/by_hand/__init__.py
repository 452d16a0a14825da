"""Readers and writers for messages that are large or frequent, in all of their versions.

They must not copy records, or create an object for each element of a message.
"""

"""Readers and writers for messages that are large or frequent, in all of their versions.

Readers and writers must not copy records, or create an object for each element of a message.
"""

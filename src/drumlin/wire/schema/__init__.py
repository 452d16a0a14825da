"""The language in which messages are declared, and its compiler: from messages to bytes and back.

This package must not know any message: those of the protocol are in `wire/protocol`, those of
internal topics beside the coordinators that own them.
"""

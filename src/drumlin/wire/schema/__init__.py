"""The language in which messages are declared, and its compiler: from messages to bytes and back.

It must not know any message: those of the protocol stand in `wire/protocol`, those of internal
topics beside the coordinators that own them.
"""

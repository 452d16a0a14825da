"""The one way from declared messages to bytes and back: what a message is, and the compiler of it.

It must not know any message: those of the protocol stand in `wire/protocol`, those of logs with
the parts that own them.
"""

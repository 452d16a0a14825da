"""One file per API: translates a message into calls, and what they return into a message.

A handler holds no state and imports no other handler.
"""

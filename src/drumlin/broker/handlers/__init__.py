"""One file per API: translates a request into calls, and their results into a response.

A handler holds no state and imports no other handler.
"""

"""Transactions: which producers may write, to what, and how each transaction ends."""

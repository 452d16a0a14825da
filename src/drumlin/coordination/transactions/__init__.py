"""Transactions: who may produce, to what, and how each transaction ends."""

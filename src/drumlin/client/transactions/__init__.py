"""Transactions: read_committed readers see all of their records and offsets, or none.

Only the classic protocol (EndTxn up to version 4, without KIP-890): a transaction keeps its
producer id and epoch until its end, so that any process that knows them may end it.
"""

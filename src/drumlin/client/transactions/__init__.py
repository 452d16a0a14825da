"""Transactions: records and offsets that are all seen by read_committed readers, or none of them.

The classic generation of the protocol alone (EndTxn up to version 4): a transaction keeps its
producer id and epoch until its end, so that any process that knows them may end it.
"""

"""Transactions: the states of transactional ids, their producers, and the completion of
transactions.
"""

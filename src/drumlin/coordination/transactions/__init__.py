"""Transactions: the states of transactional ids, their producers, and the ends of transactions."""

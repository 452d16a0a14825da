"""Rows made of records: their columns, the last ones of each key, and files of them.

Runs in Spark's tasks, and knows no target.
"""

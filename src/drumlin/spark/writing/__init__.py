"""The sink: rows of a DataFrame become records of topics.

The driver checks options and schema; tasks write. This package must never read records for a
query.
"""

"""The sink: rows of a DataFrame become records of topics.

The driver checks options and schema; tasks write. Nothing here reads topics.
"""

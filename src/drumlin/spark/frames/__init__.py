"""Functions that return a topic's state as DataFrames, restore it, or update it from a query."""

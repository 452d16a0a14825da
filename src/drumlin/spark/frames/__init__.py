"""Functions that return DataFrames of a topic's state, or restore it."""

"""Functions that return DataFrames of a topic's state, restore it, or bring it up to a query."""

"""Functions that give a program DataFrames of a topic's state, or restore it."""

"""The record batch as it lies in a log: its header, where it ends, its varints. Reads no record."""

"""Records one by one, in plain Python: for few records, and to test the kernels."""

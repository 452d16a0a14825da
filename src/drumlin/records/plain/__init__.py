"""Records one by one, in plain Python: for few of them, and as what kernels are held against."""

"""Changes by other brokers and tools, which are found by watches on znodes and applied to the
image.
"""

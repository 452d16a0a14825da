"""Share partitions: the records of a partition that members of a share group have acquired.

Plain state machines, whose inputs are fetched records, acknowledgements and the time.
"""

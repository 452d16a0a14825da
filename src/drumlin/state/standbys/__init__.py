"""Who owns a partition and who has a replica of it. Must never affect what is committed."""

"""What the console changes in a cluster, with its user's rights: records, and groups' offsets."""

"""Share partitions at work (KIP-932), and the sessions of their members."""

"""Share partitions that this broker leads (KIP-932), and the sessions of their members."""

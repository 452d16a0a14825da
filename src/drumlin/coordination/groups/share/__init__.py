"""Share groups (KIP-932): their members, and the assignment of partitions. Never awaits."""

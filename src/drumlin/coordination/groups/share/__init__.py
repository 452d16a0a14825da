"""Share groups (KIP-932): their members, and which partitions each of them reads. Never awaits."""

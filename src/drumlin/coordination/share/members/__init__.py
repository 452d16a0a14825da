"""Share groups: members that share partitions, each record going to one of them (KIP-932)."""

"""Share groups (KIP-932): what is delivered to their members, and the state of that."""

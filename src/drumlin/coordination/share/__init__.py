"""Share groups (KIP-932): their members, what is delivered to them, and the state of that."""

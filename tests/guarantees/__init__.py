"""The proofs of the delivery guarantees: see docs/guarantees.md."""

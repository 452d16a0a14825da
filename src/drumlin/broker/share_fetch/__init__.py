"""ShareFetch and ShareAcknowledge requests (KIP-932)."""

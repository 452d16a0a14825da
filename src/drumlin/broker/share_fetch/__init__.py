"""ShareFetch and ShareAcknowledge (KIP-932): one request each, from what it asks to its answer."""

"""The server's side of SASL mechanisms: tokens in, tokens out. Most of it does no I/O."""

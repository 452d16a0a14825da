"""The server's side of SASL mechanisms: tokens in, tokens out. No I/O but where a file says so."""

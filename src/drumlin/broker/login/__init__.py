"""Authentication of a connection's peer: by a certificate, or by a SASL login."""

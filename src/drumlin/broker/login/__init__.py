"""How a connection's peer shows who it is: by a certificate, or by a login."""

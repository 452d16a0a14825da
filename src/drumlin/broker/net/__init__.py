"""Connections of clients: they receive requests and send answers in bounded memory. Knows no
API."""

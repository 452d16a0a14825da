"""Connections of clients: frames in, answers out, bounded memory. Knows no API."""

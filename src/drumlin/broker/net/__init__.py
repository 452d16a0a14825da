"""Connections of clients: they receive requests and send answers in bounded memory, and know no
API.
"""

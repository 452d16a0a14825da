"""TLS of listeners: keystores and truststores, principals' names, cipher suites, and renewal.

Independent of logins.
"""

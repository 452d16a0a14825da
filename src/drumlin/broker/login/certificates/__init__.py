"""What listeners with TLS show, and whom they trust: stores, names, suites, and replacements.

Nothing here knows of logins.
"""

"""The console's page: HTML, CSS and modules of JavaScript, served as they are.

What comes from a cluster is hostile: it is shown as text only, and never becomes markup.
"""

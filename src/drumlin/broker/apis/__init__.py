"""The APIs, versions and features that are served, and the loading of their code on first use."""

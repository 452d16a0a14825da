"""Tests of tables that are served: pages, and the databases that they are made in."""

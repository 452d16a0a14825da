"""Tests of topics that are kept in stores of others."""

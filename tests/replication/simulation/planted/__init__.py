"""Mistakes that the simulation must find."""

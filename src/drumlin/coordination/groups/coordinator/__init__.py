"""The group coordinator: finds the group of a request, and carries out what it decides.

Everything in groups that awaits is here; no rule of a group is.
"""

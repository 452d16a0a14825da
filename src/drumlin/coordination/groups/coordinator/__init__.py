"""The group coordinator: finds the group of a request, and carries out the group's decision.

All asynchronous code of groups is here, and none of their rules.
"""

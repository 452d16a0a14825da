"""Groups of the classic protocol: members agree on a generation by JoinGroup and SyncGroup."""

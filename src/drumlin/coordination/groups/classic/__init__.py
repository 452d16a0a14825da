"""Groups whose members agree on a generation by JoinGroup and SyncGroup."""

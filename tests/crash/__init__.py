"""What happens when things go wrong: kills, hostile peers, full disks, bad starts."""

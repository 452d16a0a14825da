"""Windows, timers and ticks: what happens when time has passed. Must never read records itself."""

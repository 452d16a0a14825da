"""Windows, timers and ticks: actions that depend on time. Must never read records itself."""

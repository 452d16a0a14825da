"""Programs that watch clusters: how they are started, and whether what they tell is true."""

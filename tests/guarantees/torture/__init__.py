"""Transactional producers and consumers on a broker that is killed, paused and restarted."""

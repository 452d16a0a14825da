"""The rules of a cluster: who may lead, where replicas are placed. Pure; no store is known here."""

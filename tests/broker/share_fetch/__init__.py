"""Tests of `drumlin.broker.share_fetch`."""

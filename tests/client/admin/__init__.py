"""Tests of `drumlin.client.admin`."""

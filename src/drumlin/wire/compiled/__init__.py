"""Encoders and decoders for any message, compiled from kio's classes."""

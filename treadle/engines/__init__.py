"""Engines: what runs a graph."""

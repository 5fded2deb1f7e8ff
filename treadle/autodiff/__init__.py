"""Derivatives of graphs, as graphs."""

"""Rewriting of graphs before they become loops."""

"""Rows of bodies, assembled into one list of native steps."""

"""Graphs that differ for every example: nodes of one signature run as rows."""

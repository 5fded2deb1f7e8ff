"""Workloads measured, with floors and goals."""

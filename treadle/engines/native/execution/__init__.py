"""Execution: memory, threads and the runner of native programs."""

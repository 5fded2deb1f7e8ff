"""Training runs: networks and optimizers by name, snapshots, progress."""

"""Programs: graphs translated for this machine, kept by structure and by size."""

"""Types, dtypes, errors, options and trees: what every layer stands on."""

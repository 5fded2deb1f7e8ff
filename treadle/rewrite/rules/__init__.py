"""Tables of rules by subject."""

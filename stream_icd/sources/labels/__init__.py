"""Tables of known communities."""

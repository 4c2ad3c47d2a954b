"""Models: what one holds, how it is kept, and where it is found."""

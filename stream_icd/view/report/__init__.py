"""The page as one file that needs no server, and its pictures."""

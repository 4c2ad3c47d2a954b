"""Records that could not be processed: written, found, shown, sent again."""

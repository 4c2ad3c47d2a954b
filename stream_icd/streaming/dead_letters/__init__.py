"""Records that could not be processed: write, find, show and resend them."""

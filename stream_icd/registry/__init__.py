"""Where models are found."""

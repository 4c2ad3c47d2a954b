"""What is kept of the results: windows, series of windows, and the limits on both."""

"""What is drawn: pure functions from windows to what a panel of the page shows."""

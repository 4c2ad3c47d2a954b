"""What producers and consumers are made of, yours too."""

"""Reading results: communities and events, once each, in order, and what is missing."""

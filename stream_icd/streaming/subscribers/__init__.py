"""Read results: communities and events, each once, in order, with gaps reported."""

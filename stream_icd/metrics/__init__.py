"""What a worker shows of itself: Prometheus metrics, and whether it is alive and ready."""

"""Observability of a worker: Prometheus metrics, liveness and readiness."""

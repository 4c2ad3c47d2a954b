"""Runs detection: in this process, or in worker processes with a budget for each job."""

"""Batches of records: polled, processed, published and committed; also after a crash."""

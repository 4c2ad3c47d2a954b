"""`stream-icd retrain`: learn a new model from the archive, and promote it if it is better."""

from __future__ import annotations

from stream_icd.retraining.command import app as app

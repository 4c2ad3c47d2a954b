"""`stream-icd consume retrain`: keep the champion of a registry up to date."""

from __future__ import annotations

from stream_icd.retraining.command import app as app

"""The headers of a message, as contract and broker have them."""

from __future__ import annotations

Headers = tuple[tuple[str, bytes], ...]
"""Names and values. Non-UTF-8 bytes in a name become lone surrogates (PEP 383)."""

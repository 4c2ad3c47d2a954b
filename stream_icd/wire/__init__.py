"""The contract: bytes and headers of each message (docs/wire.md), and back.

Never connects: what sends and receives the bytes is in `kafka`.
"""

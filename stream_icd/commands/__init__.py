"""The command `stream-icd`, and what producers and consumers are made of.

Only options, wiring and output: never an algorithm, and nothing below imports it.
"""

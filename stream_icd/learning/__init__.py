"""How models are made and refreshed: training, and the retrainer that decides on a champion.

Never runs inside a detector: a detector only opens what the registry holds.
"""

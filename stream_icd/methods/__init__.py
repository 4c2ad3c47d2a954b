"""What runs on graphs: bp, icd, memory between windows, tracking, names, quality, simulated graphs.

Pure. Never reads a file, a clock or a topic.
"""

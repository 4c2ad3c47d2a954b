"""What everything else speaks of: snapshot, communities, events, errors, settings, times, files.

Never detects, never speaks to a broker, and imports no other folder of this package.
"""

"""What people touch without a broker: the estimator `ICD`, NetworkX and CDlib, page, report, demo.

Nothing below imports it: the stream runs without.
"""

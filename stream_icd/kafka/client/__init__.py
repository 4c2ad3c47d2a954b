"""The port implemented with kafka-python; only this folder imports that client.

Outside, only `stream_icd.kafka.connect` imports from it.
"""

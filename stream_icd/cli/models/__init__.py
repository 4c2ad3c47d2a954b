"""`stream-icd models`: its commands, the text that they print, and changes of a registry."""

"""One runnable program a file; `stream-icd consume` finds them through entry points."""

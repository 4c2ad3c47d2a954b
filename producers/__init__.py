"""One runnable program a file; `stream-icd produce` finds them through entry points."""

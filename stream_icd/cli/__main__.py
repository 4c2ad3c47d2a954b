"""`python -m stream_icd.cli`: the `stream-icd` command of this very interpreter."""

from stream_icd.cli.main import main

main()

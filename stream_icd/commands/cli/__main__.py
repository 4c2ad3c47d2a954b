"""`python -m stream_icd.commands.cli`: the `stream-icd` command of this very interpreter."""

from stream_icd.commands.cli.main import main

main()

"""Import this in a server that forks worker processes: they begin with the loops of method bp."""

from tests.testbed.compile_loops import warm_up_detection

warm_up_detection()

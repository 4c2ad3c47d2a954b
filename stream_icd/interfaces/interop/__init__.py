"""Other libraries' interfaces: NetworkX's backends, CDlib's results; imported only when used."""

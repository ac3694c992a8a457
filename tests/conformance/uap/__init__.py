"""UAP-1.0. A package, so that a file may be named as one of `tests/python`."""

"""UAP-1.0. It is a package, so that its files can have the same names as files of `tests/python`."""

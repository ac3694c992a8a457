"""One module per peer, each executed in the environment of the peer.

A file names what it installs and imports, and has a function per case it supports; the function prepares the case
outside of the clock and returns the function of one iteration. The cases: `build(url)`, `plain(url)`, `tool(url)`,
`stream(url, model)`, `history(url, past)` and, for conversions, functions that return a `Conversion`.

    PACKAGES     what pip installs, newest version
    VERSIONS     the distributions to report
    IMPORT       what a program must import before its first turn
    UNSUPPORTED  cases that make no sense for this peer, with the reason
"""

"""A loopback server that applies a fault to every response, chosen by a seed.

`chaos` starts one. The client under test must report either the right answer or the right error, and never hang.
HTTP/2 needs the packages `h2` and `trustme`.
"""

from chaos.fault_outcome import FaultOutcome
from chaos.http2 import HTTP2_FAULTS
from chaos.server import FAULTS, ChaosServer, Scenario, chaos

__all__ = ["FAULTS", "HTTP2_FAULTS", "ChaosServer", "FaultOutcome", "Scenario", "chaos"]

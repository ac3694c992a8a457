"""The application of the tests as an ASGI server imports it: ``asgi_test_app:app``."""

from turntree import _core
from turntree._server import AsgiApplication

app = AsgiApplication(_core._bridge_selftest.asgi_core())

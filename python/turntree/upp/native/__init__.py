"""Provider-native tools, one module per vendor: ``native.anthropic.web_search(max_uses=3)``.

Each function returns a `NativeTool` for ``tools=[…]``. It is also a dict for ``params={"tools": […]}``.

Spec: UPP-1.2 §19.1 to §19.8.
"""

from turntree._public_names import set_public_module as _set_public_module
from turntree.upp.native import anthropic, google, groq, moonshot, openai, openrouter, xai
from turntree.upp.native._tool import NativeTool

__all__ = ["NativeTool", "anthropic", "google", "groq", "moonshot", "openai", "openrouter", "xai"]

_set_public_module(__name__, globals())

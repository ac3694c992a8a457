"""Provider-native tools, one module per vendor: ``native.anthropic.web_search(max_uses=3)``.

Each function returns a `NativeTool` for ``tools=[…]``. It is also a dict for ``params={"tools": […]}``.

Spec: UPP-1.2 §19.1 to §19.8.
"""

from turntree._public_names import import_late as _import_late

TYPE_CHECKING = False
if TYPE_CHECKING:
    from turntree.upp.native import anthropic, google, groq, moonshot, openai, openrouter, xai
    from turntree.upp.native._tool import NativeTool

__all__ = ["NativeTool", "anthropic", "google", "groq", "moonshot", "openai", "openrouter", "xai"]

_LATE = {
    "turntree.upp.native._tool": ("NativeTool",),
    "turntree.upp.native.anthropic": ("anthropic",),
    "turntree.upp.native.google": ("google",),
    "turntree.upp.native.groq": ("groq",),
    "turntree.upp.native.moonshot": ("moonshot",),
    "turntree.upp.native.openai": ("openai",),
    "turntree.upp.native.openrouter": ("openrouter",),
    "turntree.upp.native.xai": ("xai",),
}

_import_late(__name__, globals(), _LATE)

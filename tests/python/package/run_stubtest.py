"""Runs `mypy.stubtest` on `turntree._core`, whose stub is a package while the module is one extension module.

Stubtest skips what a stub package re-exports and checks it in the module that defines it. Those modules, such as
``turntree._core._media``, exist for type checkers only. This script makes them importable before it runs stubtest:
each one has the names that its stub declares, with the objects of the extension module. Aliases of types exist in
the stubs only, and are allowed.
"""

import ast
import re
import sys
import tempfile
from pathlib import Path
from types import ModuleType

from mypy import stubtest

from turntree import _core

HERE = Path(__file__).parent
STUBS = HERE.parents[2] / "python" / "turntree" / "_core"
SELFTEST = "_bridge_selftest"  # exists only in a build for the tests of the bridge


def main() -> int:
    allowed = [(HERE / "stubtest_allowlist.txt").read_text(encoding="utf-8")]
    if hasattr(_core, SELFTEST):
        allowed += [rf"turntree\._core\.{SELFTEST}", r"turntree\._core\.__all__"]
    for stub in STUBS.glob("_[a-z]*.pyi"):
        name = f"{_core.__name__}.{stub.stem}"
        module = sys.modules[name] = ModuleType(name)
        for node in ast.parse(stub.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and hasattr(_core, node.name):
                setattr(module, node.name, getattr(_core, node.name))
            elif isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias":
                allowed.append(re.escape(f"{name}.{ast.unparse(node.target)}"))
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".txt") as allowlist:
        allowlist.write("\n".join(allowed))
        allowlist.flush()
        sys.argv[1:] = [_core.__name__, "--allowlist", allowlist.name, "--mypy-config-file", "pyproject.toml"]
        return stubtest.main()


if __name__ == "__main__":
    sys.exit(main())

"""``python -m turntree`` is the command ``turntree``."""

import sys

from turntree._cli import main

if __name__ == "__main__":
    sys.exit(main())

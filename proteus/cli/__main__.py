"""``python -m proteus.cli``, for where scripts are not on the path."""

import sys

from proteus.cli import main

if __name__ == "__main__":
    sys.exit(main())

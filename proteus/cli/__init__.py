"""The ``proteus`` command.

Exit codes: 0 done, 1 a check failed, 2 the input cannot be used (one line on
stderr says why), 130 interrupted.  With ``--json`` stdout carries one JSON
object and nothing else.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from proteus.errors import ProteusError

EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells count it


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    from proteus.cli.parser import build_parser

    try:
        options = build_parser().parse_args(arguments)
        code: int = options.run(options)
        sys.stdout.flush()
        return code
    except SystemExit as stop:  # argparse has printed help or one line of what is wrong
        return stop.code if isinstance(stop.code, int) else EXIT_BAD_INPUT
    except BrokenPipeError:
        # The reader of our output went away (`proteus ... | head`); keep the interpreter's last flush quiet.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("proteus: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except ProteusError as error:
        print(f"proteus: {one_line(str(error))}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"proteus: {where}{error.strerror or error}", file=sys.stderr)
        return EXIT_BAD_INPUT


def one_line(message: str) -> str:
    """The first line of a message; a picture below it is for Python users.

    >>> one_line("rank 1 waits forever\\n  0F0 0F1")
    'rank 1 waits forever'
    """
    return message.strip().split("\n", 1)[0]

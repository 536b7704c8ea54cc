"""The program ``bdo`` of this package."""

import signal
import sys

from ._core import program


def main() -> None:
    # As for any program: Ctrl-C ends it, unless the verb itself listens.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(program(["bdo", *sys.argv[1:]]))


if __name__ == "__main__":
    main()

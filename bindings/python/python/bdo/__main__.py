"""``python -m bdo`` is the program."""

from ._program import main

main()

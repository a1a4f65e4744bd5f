"""``python -m certifare`` is the command ``certifare``."""

from certifare.cli import main

main()

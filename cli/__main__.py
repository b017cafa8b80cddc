"""``python -m cli`` is ``datacomp-energon``."""

from cli.main import main

main()

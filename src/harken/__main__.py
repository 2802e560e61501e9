"""`python -m harken`."""

from harken.serve.cli import main

main()

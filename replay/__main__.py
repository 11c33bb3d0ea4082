"""`python -m replay` is `replay`."""

from __future__ import annotations

from replay.cli.app import main

if __name__ == "__main__":
    main()

"""`make soak`: the crash tests, long. `python -m tests.soak [KILLS] [SEED]`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.soak.crash import crash

KILLS = 150


def main() -> int:
    kills, seed = (*map(int, sys.argv[1:]), *(KILLS, 1)[len(sys.argv) - 1 :])
    with tempfile.TemporaryDirectory() as folder:
        outcome = crash(Path(folder), alerts=500, kills=kills, seed=seed, limit=3600)
    print(outcome)
    for line in outcome.wrong:
        print(f"WRONG: {line}")
    return 1 if outcome.wrong else 0


if __name__ == "__main__":
    sys.exit(main())

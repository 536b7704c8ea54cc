"""Where a script that makes goldens writes them."""

import argparse
from pathlib import Path


def golden_folder(description: str) -> Path:
    """The folder of `--out`, made if it is not there: testdata/golden unless told otherwise."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    root = Path(__file__).resolve().parents[2]
    parser.add_argument("--out", type=Path, default=root / "testdata" / "golden")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    return out

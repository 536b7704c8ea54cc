"""The pictures of README.md and what stands beside them, made anew from simulated people.

    python3 tools/pictures.py target/release/bdo [MINUTES]

Simulates a cohort, pre-trains the default preset for MINUTES (1), compares it on a label, and takes the figures of the pages
through a headless chromium into docs/pictures; two minutes on two cores. Needs nothing but Python's own library and chromium.
"""

import html
import pathlib
import re
import subprocess
import sys
import tempfile

PICTURES = pathlib.Path(__file__).resolve().parent.parent / "docs" / "pictures"
WIDTH = 1000
CHROMIUM = "chromium --headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-sync --hide-scrollbars"


def figure(page: pathlib.Path, name: str) -> str:
    """The drawing of a figure by its name."""
    text = page.read_text(encoding="utf-8")
    found = re.search(rf'<figure[^>]*data-name="{re.escape(name)}".*?<div class="scroll">(<svg.*?)</div>', text, re.S)
    if not found:
        known = sorted(set(re.findall(r'data-name="([^"]+)"', text)))
        raise SystemExit(f"{page}: expected a figure {name}, found {', '.join(map(html.unescape, known))}")
    return found.group(1)


def take(drawing: str, out: pathlib.Path, folder: pathlib.Path) -> None:
    """Draws an SVG at WIDTH pixels, on white."""
    box = [float(x) for x in re.search(r'viewBox="([^"]+)"', drawing).group(1).split()]
    height = round(WIDTH * box[3] / box[2])
    page = folder / "figure.html"
    style = f"body{{margin:0;background:#fff}}body>svg{{width:{WIDTH}px;height:auto;display:block}}svg image{{image-rendering:pixelated}}"
    page.write_text(f'<!doctype html><meta charset="utf-8"><style>{style}</style>{drawing}', encoding="utf-8")
    profile = folder / "profile"
    command = [*CHROMIUM.split(), f"--user-data-dir={profile}", f"--window-size={WIDTH},{height}", f"--screenshot={out}", f"file://{page}"]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    print(f"{out}: {WIDTH} x {height}")


def main() -> None:
    bdo, minutes = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2] if len(sys.argv) > 2 else "1"
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)

        def run(arguments: str) -> None:
            print("bdo", arguments)
            subprocess.run([bdo, *arguments.split(), "--quiet"], check=True, cwd=folder, stdout=subprocess.DEVNULL)

        run("simulate people --subjects 240 --regions 100 --frames 200 --missing-labels 0 --seed 7")
        run(f"pretrain --data people --out run --max-minutes {minutes}")
        run("report run --data people --scans 1 --out run.html")
        run("compare --data people --targets diagnosis --methods bdo-mean,fc-tangent --pretrain-minutes 0.1 --out comparison --no-audit")
        pages = [
            (folder / "run.html", "reconstruction", "reconstruction"),
            (folder / "comparison" / "report.html", "forest-diagnosis-random", "comparison"),
            (folder / "run.html", "control-drive-brain", "glass-brain"),
        ]
        for page, name, out in pages:
            take(figure(page, name), PICTURES / f"{out}.png", folder)


if __name__ == "__main__":
    main()

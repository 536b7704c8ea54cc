"""The pictures of README.md and the example with numbers beside them, made anew by the same commands.

    python3 tools/pictures.py target/release/bdo

Runs the commands of the example, puts them with what they print into README.md, compares the model on a label, and takes the
figures of the pages through a headless chromium into docs/pictures; two minutes on two cores. `made.json` there holds the text and
the checksums of the pictures; a test (`pictures_and_numbers_of_the_readme_are_of_one_run`) compares README.md and the pictures with
it. Needs nothing but Python's own library and chromium.
"""

import html
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
# In epochs, not minutes, so that the numbers do not depend on the speed of a machine.
EXAMPLE = [
    "simulate people --subjects 240 --regions 100 --frames 200 --seed 7 --quiet",
    "simulate others --subjects 60 --regions 100 --frames 200 --seed 8 --quiet",
    "pretrain --data people --out run --set train.epochs=10 --quiet",
    "evaluate --model run/model --data others --quiet",
]
COMPARISON = "compare --data people --targets diagnosis --methods bdo-mean,fc-tangent --set train.epochs=10 --pretrain-minutes 0 --out comparison --no-audit --quiet"
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


def beside(summary: dict) -> str:
    """The sentence beside the comparison: what its picture shows, in numbers."""
    rows = {row["method"]: row for row in summary["rows"]}

    def score(method: str) -> str:
        row = rows[method]
        mean = next(cell["mean"] for cell in row["cells"] if cell["metric"] == row["primary"])
        return f"{100 * mean:.1f} ({100 * row['interval']['low']:.1f} to {100 * row['interval']['high']:.1f})"

    names = {"bdo-mean": "mean control", "bdo-untrained-mean": "the same encoder untrained", "fc": "correlations", "fc-tangent": "tangent space"}
    scores = ", ".join(f"{name} {score(method)}" for method, name in names.items())
    return f"Left, AUC in % of a simulated diagnosis with 95 % intervals: {scores}."


def main() -> None:
    bdo = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)

        def run(arguments: str) -> str:
            print("bdo", arguments)
            done = subprocess.run([bdo, *arguments.split()], check=True, cwd=folder, capture_output=True, text=True)
            return done.stdout

        shown = ""
        for arguments in EXAMPLE:
            said = run(arguments)
            # What a simulation says of its files is no result.
            shown += f"$ bdo {arguments}\n" + ("" if arguments.startswith("simulate") else said)
        # The time a training took is that of one machine.
        example = "\n".join("    " + line for line in re.sub(r" in [0-9.]+ min", "", shown).strip().splitlines())
        run("report run --data people --scans 1 --out run.html")
        run(COMPARISON)
        summary = json.loads((folder / "comparison" / "table.json").read_text(encoding="utf-8"))["summary"]
        pages = [
            (folder / "run.html", "reconstruction", "reconstruction"),
            (folder / "comparison" / "report.html", "forest-diagnosis-random", "comparison"),
            (folder / "run.html", "control-drive-brain", "glass-brain"),
        ]
        for page, name, out in pages:
            take(figure(page, name), PICTURES / f"{out}.png", folder)
    pictures = {out: zlib.crc32((PICTURES / f"{out}.png").read_bytes()) for _, _, out in pages}
    made = {"example": example, "comparison": beside(summary), "pictures": pictures}
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for mark in ("example", "comparison"):
        inside = rf"(<!-- {mark}: tools/pictures.py -->\n).*?(\n<!-- end -->)"
        readme, count = re.subn(inside, lambda m: m.group(1) + made[mark] + m.group(2), readme, flags=re.S)
        if count != 1:
            raise SystemExit(f"README.md: expected one place for the {mark}, found {count}")
    (ROOT / "README.md").write_text(readme, encoding="utf-8")
    (PICTURES / "made.json").write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

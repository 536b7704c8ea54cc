"""A cohort of any number of scans from a small one: parts are hard links, people get new names.

    bdo simulate base --subjects 200 --regions 450 --frames 480
    python tools/large-cohort.py base large 32857

The copies of a scan count as scans of different people; what is measured with it is size, not learning. Needs `pip install blake3`.
"""

import json
import os
import sys
from pathlib import Path

from blake3 import blake3


def main(base: Path, out: Path, scans: int) -> None:
    (out / "scans").mkdir(parents=True)
    read = lambda name: json.loads((base / name).read_text())
    cohort, index = read("cohort.json"), read("index.json")
    header, *people = (base / "participants.tsv").read_text().splitlines()
    parts, entries, rows, number = [], [], [header], 0
    while len(entries) < scans:
        for part in cohort["parts"]:
            name = f"scans/part-{len(parts):05}.arrow"
            os.link(base / part["file"], out / name)
            parts.append({**part, "file": name})
        first = len(parts) - len(cohort["parts"])
        for place, entry in enumerate(index):
            if len(entries) == scans:
                break
            number += 1
            subject = f"sub-{number:06}"
            own = blake3(f"{entry['series_blake3']} {number}".encode()).hexdigest()
            entries.append({**entry, "subject": subject, "part": first + entry["part"], "series_blake3": own})
            rows.append("\t".join([subject, *people[place].split("\t")[1:]]))
    cohort.update(scans=len(entries), subjects=len(entries), parts=parts)
    texts = {
        "cohort.json": json.dumps(cohort, indent=2),
        "index.json": json.dumps(entries),
        "participants.tsv": "\n".join(rows) + "\n",
        "participants.json": (base / "participants.json").read_text(),
        "regions.json": (base / "regions.json").read_text(),
    }
    sums = {name: blake3(text.encode()).hexdigest() for name, text in texts.items()}
    sums.update({part["file"]: part["blake3"] for part in parts})
    for name, text in texts.items():
        (out / name).write_text(text)
    (out / "checksums.b3").write_text("".join(f"{sums[name]}  {name}\n" for name in sorted(sums)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))

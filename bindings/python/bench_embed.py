"""Embedding through Python beside `bdo embed`, in turns, in processor seconds of whole processes and of the call alone.

    python bindings/python/bench_embed.py MODEL COHORT [ROUNDS]
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

CALL = """
import sys, time, bdo
cohort, model = bdo.Cohort(sys.argv[2]), bdo.load(sys.argv[1])
series = [cohort.series(i) for i in range(len(cohort))]
tr, names = [cohort.tr(i) for i in range(len(cohort))], cohort.regions
wall, used = time.perf_counter(), time.process_time()
model.embed(series, tr=tr, regions=names)
print(time.perf_counter() - wall, time.process_time() - used)
"""


def used_by(words):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return said, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    model, cohort = sys.argv[1:3]
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    program = os.environ.get("BDO_PROGRAM", str(Path(sys.executable).with_name("bdo")))
    by_program, by_python = [], []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            words = [program, "embed", "--model", model, "--data", cohort, "--out", f"{folder}/f.npy", "--json", "--quiet"]
            said, used = used_by(words)
            by_program.append((json.loads(said)["seconds"], used))
            said, _ = used_by([sys.executable, "-c", CALL, model, cohort])
            by_python.append(tuple(float(x) for x in said.split()))
    for name, laps in (("bdo embed", by_program), ("model.embed", by_python)):
        wall, used = zip(*laps)
        print(f"{name}: {statistics.median(wall):.3f} s wall, {statistics.median(used):.3f} s of processors (least {min(used):.3f})")
    ratio = statistics.median(b[1] / a[1] for a, b in zip(by_program, by_python))
    print(f"processor time of the call / that of the program, median over {rounds} pairs: {ratio:.3f}")


if __name__ == "__main__":
    main()

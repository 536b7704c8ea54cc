"""Time ingest of whole-brain runs beside nilearn's masker, and of a run of 4.3 GB.

usage: python compare_parcellation_speed.py BDO ATLAS SCRATCH_DIR [--turns N] [--long]

BDO is the release program, ATLAS a label image of 91 x 109 x 91 voxels. Runs of 200 volumes around a brain (16-bit whole numbers and 32-bit floats, gzipped as nibabel does) are
generated into SCRATCH_DIR. Each program reads each run N times (3), in turns; medians are printed, one JSON line per run:

    inflate_cpu_s    decompression alone, by the decoder of BDO, on one thread
    masker_cpu_s     from the file to region series in BDO
    ingest_cpu_s     the whole program `bdo ingest`, from start to cohort
    nilearn_cpu_s    `NiftiLabelsMasker.fit_transform`, without the start of Python
    *_wall_s         the same by the clock

With `--long` a run of 1200 volumes of 32-bit floats (4.3 GB, not compressed) is generated, ingested and deleted. Memory is not
measured here: `/usr/bin/time bdo ingest ...` from a shell tells. Needs numpy, nibabel and nilearn.
"""

import argparse
import json
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import time
import warnings

import nibabel
import numpy
from nilearn.maskers import NiftiLabelsMasker

warnings.simplefilter("ignore")


def brain(shape):
    x, y, z = (numpy.linspace(-1.1, 1.1, n) for n in shape)
    return (x[:, None, None] ** 2 + y[None, :, None] ** 2 + z[None, None, :] ** 2) < 1


def generate(path, atlas, kind, volumes):
    rng = numpy.random.default_rng(1)
    image = nibabel.load(atlas)
    inside = brain(image.shape)
    level = numpy.where(inside, 8000, 0)
    noise = numpy.where(inside, 80.0, 3.0)
    data = numpy.empty((*image.shape, volumes), kind, order="F")
    for volume in range(volumes):
        data[..., volume] = level + noise * rng.standard_normal(image.shape, dtype="f4")
    run = nibabel.Nifti1Image(data, image.affine)
    run.header["pixdim"][4] = 0.8
    run.header.set_xyzt_units("mm", "sec")
    nibabel.save(run, path)


def generate_long(path, atlas, volumes):
    """Written volume by volume, since it does not fit into memory."""
    rng = numpy.random.default_rng(1)
    image = nibabel.load(atlas)
    header = nibabel.Nifti1Header()
    header.set_data_dtype("f4")
    header.set_data_shape((*image.shape, volumes))
    header.set_sform(image.affine, 4)
    header.set_qform(image.affine, 4)
    header.set_xyzt_units("mm", "sec")
    header["pixdim"][4] = 0.72
    header["magic"] = b"n+1"
    header["vox_offset"] = 352
    inside = numpy.where(brain(image.shape), 8000, 0).astype("f4")
    texture = rng.standard_normal((64, *image.shape), dtype="f4") * 80
    with open(path, "wb") as file:
        file.write(header.binaryblock + bytes(4))
        for volume in range(volumes):
            drift = rng.standard_normal() * 40
            file.write((inside + texture[volume % 64] + drift).astype("f4").ravel(order="F").tobytes())


def child(arguments):
    """Processor seconds, seconds by the clock, largest resident MiB, and what was said."""
    started = time.perf_counter()
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE)
    said = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"{arguments}: status {status}")
    # Not the largest memory: a child counts that of the interpreter it was forked from.
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - started, said


def ingest(bdo, run, atlas, scratch):
    source, out = scratch / "source", scratch / "cohort"
    for folder in (source, out):
        shutil.rmtree(folder, ignore_errors=True)
    source.mkdir()
    (source / run.name).symlink_to(run.resolve())
    measured = child([bdo, "ingest", str(source), str(out), "--format", "nifti", "--atlas", atlas, "--quiet", "--json"])
    for folder in (source, out):
        shutil.rmtree(folder)
    return measured


def processor_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def compare(bdo, atlas, run, scratch, repetitions):
    turns = []
    for _ in range(repetitions):
        turn = json.loads(child([bdo, "bench", "ingest", "--image", str(run), "--atlas", atlas, "--json"])[2])
        turn["ingest_cpu_s"], turn["ingest_wall_s"], _ = ingest(bdo, run, atlas, scratch)
        cpu, wall = processor_seconds(), time.perf_counter()
        NiftiLabelsMasker(atlas, resampling_target="data", standardize=None).fit_transform(str(run))
        turn["nilearn_cpu_s"], turn["nilearn_wall_s"] = processor_seconds() - cpu, time.perf_counter() - wall
        turns.append(turn)
    median = {key: round(statistics.median(turn[key] for turn in turns), 3) for key in turns[0]}
    median["nilearn_over_ingest_cpu"] = round(median["nilearn_cpu_s"] / median["ingest_cpu_s"], 1)
    median["masker_over_inflate_cpu"] = round(median["masker_cpu_s"] / median["inflate_cpu_s"], 2)
    print(json.dumps({"run": run.name, "file_mib": round(run.stat().st_size / 2**20, 1), **median}), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bdo")
    parser.add_argument("atlas")
    parser.add_argument("scratch", type=pathlib.Path)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--long", action="store_true")
    args = parser.parse_args()
    args.scratch.mkdir(parents=True, exist_ok=True)
    for kind in ["i2", "f4"]:
        run = args.scratch / f"whole_brain_{kind}.nii.gz"
        if not run.exists():
            generate(run, args.atlas, kind, 200)
        compare(args.bdo, args.atlas, run, args.scratch, args.turns)
    if args.long:
        run = args.scratch / "long_f4.nii"
        generate_long(run, args.atlas, 1200)
        size = run.stat().st_size
        cpu, wall, _ = ingest(args.bdo, run, args.atlas, args.scratch)
        run.unlink()
        record = {"run": run.name, "file_gb": size / 1e9, "ingest_cpu_s": cpu, "ingest_wall_s": wall}
        print(json.dumps(record))


if __name__ == "__main__":
    main()

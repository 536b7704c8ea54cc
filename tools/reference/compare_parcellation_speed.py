"""Time the parcellation of one whole-brain run beside nilearn's.

usage: python compare_parcellation_speed.py PROBE ATLAS SCRATCH_DIR

PROBE is the release build of the example `image_probe` of bdo-data; ATLAS a label image of 91 x 109 x 91 voxels. The run is
generated once into SCRATCH_DIR: 200 volumes of 16-bit noise around a brain, gzipped as nibabel does. Prints one JSON line.
Needs numpy, nibabel and nilearn.
"""

import json
import pathlib
import subprocess
import sys
import time
import warnings

import nibabel
import numpy
from nilearn.maskers import NiftiLabelsMasker

warnings.simplefilter("ignore")


def generate(path, atlas):
    rng = numpy.random.default_rng(1)
    image = nibabel.load(atlas)
    x, y, z = (numpy.linspace(-1.1, 1.1, n) for n in image.shape)
    brain = (x[:, None, None] ** 2 + y[None, :, None] ** 2 + z[None, None, :] ** 2) < 1
    level = numpy.where(brain, 8000, 0)
    noise = numpy.where(brain, 80.0, 3.0)
    data = numpy.empty((*image.shape, 200), "i2", order="F")
    for volume in range(200):
        data[..., volume] = level + noise * rng.standard_normal(image.shape, dtype="f4")
    run = nibabel.Nifti1Image(data, image.affine)
    run.header["pixdim"][4] = 0.8
    nibabel.save(run, path)


def main(probe, atlas, scratch):
    path = pathlib.Path(scratch) / "whole_brain_bold.nii.gz"
    if not path.exists():
        generate(path, atlas)
    started = time.perf_counter()
    out = subprocess.run([probe, "speed", path, atlas], check=True, capture_output=True, text=True).stdout
    ours = json.loads(out) | {"process_ms": 1e3 * (time.perf_counter() - started)}
    started = time.perf_counter()
    signals = NiftiLabelsMasker(atlas, resampling_target="data", standardize=None).fit_transform(str(path))
    theirs = 1e3 * (time.perf_counter() - started)
    ratio = theirs / ours["total_ms"]
    size = path.stat().st_size / 2**20
    print(json.dumps({"file_mib": size, "bdo": ours, "nilearn_ms": theirs, "shape": signals.shape, "ratio": ratio}))


if __name__ == "__main__":
    main(*sys.argv[1:])

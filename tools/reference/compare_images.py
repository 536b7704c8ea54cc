"""Compare the image reader with nibabel and nilearn, on real and on generated images.

usage: python compare_images.py PROBE SHARED_DATA MUTATIONS

PROBE is the example `image_probe` of bdo-data. SHARED_DATA is the folder of real data: its images are parcellated with
label images generated in their own grids, and nothing of them is kept. MUTATIONS is how many malformed images are made;
where both readers accept one, values and affine must be equal. Needs numpy, nibabel and nilearn.
"""

import json
import logging
import pathlib
import subprocess
import sys
import tempfile
import warnings

import nibabel
import numpy
from nilearn.image import resample_to_img
from nilearn.maskers import NiftiLabelsMasker

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
numpy.seterr(all="ignore")


def probe(binary, *args):
    out = subprocess.run([binary, *map(str, args)], check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def array(values, **kwargs):
    return numpy.array([numpy.nan if x is None else x for x in values], **kwargs)


def block_labels(shape):
    x, y, z = numpy.indices(shape)
    return (x * 3 // shape[0] + 3 * (y * 3 // shape[1]) + 9 * (z * 2 // shape[2])).astype("i2")


def same_series(binary, image, atlas, mask=None):
    masker = NiftiLabelsMasker(str(atlas), mask_img=str(mask) if mask else None, resampling_target="data", standardize=None)
    expected = numpy.atleast_2d(masker.fit_transform(str(image)))
    columns = [int(label) for column, label in masker.region_ids_.items() if column != "background"]
    (found,) = probe(binary, "parcellate", image, atlas, *([mask] if mask else []))
    series = array(found["series"]).reshape(found["frames"], -1)
    series = series[:, [found["ids"].index(label) for label in columns]]
    assert series.shape == expected.shape, (series.shape, expected.shape)
    worst = numpy.max(numpy.abs(series - expected) / (1e-30 + numpy.abs(expected)))
    assert worst < 1e-5, f"{image}: region means differ by {worst}"
    return worst


def compare_real(binary, data, scratch):
    for path in sorted((data / "nifti").iterdir()):
        image = nibabel.load(path)
        (found,) = probe(binary, "values", path)
        assert tuple(found["shape"]) == image.shape, path
        assert numpy.allclose(array(found["affine"]), image.affine[:3].ravel(), rtol=1e-12, atol=1e-12), path
        expected = image.get_fdata(dtype="f4").ravel(order="F")
        assert numpy.array_equal(array(found["values"], dtype="f4"), expected), path
        atlas = scratch / "blocks.nii.gz"
        nibabel.save(nibabel.Nifti1Image(block_labels(image.shape[:3]), image.affine), atlas)
        worst = same_series(binary, path, atlas)
        print(f"{path.name}: values equal, region means within {worst:.1e} of nilearn")


def compare_resampling(binary, data, scratch):
    """Labels of the real atlases on grids of many kinds, tie by tie."""
    rng = numpy.random.default_rng(5)
    total = different = 0
    for source in sorted((data / "atlas").glob("*.nii.gz")):
        atlas = nibabel.load(source)
        centre = atlas.affine @ [*(numpy.array(atlas.shape) / 2), 1]
        for number in range(24):
            size = [1, 2, 3, 2.4, 3.3, 4, 3.5, 2.2][number % 8]
            matrix = numpy.diag([size * (-1) ** (number // 8), size, size])
            if number >= 16:
                angles = rng.uniform(-0.3, 0.3, size=3)
                matrix = nibabel.eulerangles.euler2mat(*angles) @ matrix
            shape = numpy.array([40, 44, 36])
            affine = numpy.eye(4)
            affine[:3, :3] = matrix
            affine[:3, 3] = numpy.round(centre[:3] - matrix @ (shape / 2), 1)
            target = scratch / "target.nii.gz"
            nibabel.save(nibabel.Nifti1Image(numpy.zeros(shape, "u1"), affine), target)
            expected = resample_to_img(atlas, nibabel.load(target), interpolation="nearest", copy_header=True)
            expected = numpy.asarray(expected.dataobj).ravel(order="F")
            found = array(probe(binary, "resample", source, target)[0])
            total += expected.size
            different += int((found != expected).sum())
    print(f"resampling: {different} of {total} voxels differ from nilearn")
    assert different == 0


def compare_mutations(binary, count, scratch):
    folder = scratch / "corpus"
    folder.mkdir()
    probe(binary, "corpus", folder, count)
    files = sorted(folder.iterdir())
    both = 0
    for start in range(0, len(files), 200):
        part = files[start : start + 200]
        for path, found in zip(part, probe(binary, "values", *part)):
            if "error" in found:
                continue
            try:
                image = nibabel.load(path)
                expected = image.get_fdata(dtype="f8").ravel(order="F").astype("f4")
                affine = image.affine
            except Exception:
                continue
            both += 1
            values = array(found["values"], dtype="f4")
            assert tuple(found["shape"]) == image.shape, path
            finite = numpy.isfinite(expected)
            assert numpy.array_equal(finite, numpy.isfinite(values)), path
            assert numpy.allclose(values[finite], expected[finite], rtol=3e-7, atol=0), path
            same = numpy.allclose(array(found["affine"]), affine[:3].ravel(), rtol=1e-12, atol=1e-12, equal_nan=True)
            assert same or not numpy.isfinite(affine).all(), path
    print(f"mutations: {both} of {count} accepted by both, all equal")
    assert both > 0


def main(binary, data, count):
    data = pathlib.Path(data)
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        compare_real(binary, data, scratch)
        compare_resampling(binary, data, scratch)
        compare_mutations(binary, int(count), scratch)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Write small images and what nibabel and nilearn read from them.

usage: python make_image_goldens.py OUT_DIR

Every image is generated here. `readers.json` holds shape, affine, repetition time and values as nibabel reads them;
`parcellate.json` the labels resampled by nilearn and the region means of its NiftiLabelsMasker; `cifti.json` series as
nibabel reads them and parcel means by numpy; `series.*` the same table in the formats of
numpy, MATLAB and HDF5. Needs numpy, scipy, h5py, nibabel and nilearn.
"""

import gzip
import json
import pathlib
import sys
import warnings

import nibabel
import numpy
from nilearn.image import resample_to_img
from nilearn.maskers import NiftiLabelsMasker

warnings.simplefilter("ignore")
RNG = numpy.random.default_rng(7)
AFFINE = numpy.array([[-2.0, 0, 0, 9], [0, 2.5, 0.25, -11], [0, -0.25, 3, 4], [0, 0, 0, 1]])


def numbers(array):
    return [None if not numpy.isfinite(x) else float(x) for x in numpy.asarray(array, dtype=float).ravel(order="F")]


def reader_record(path):
    image = nibabel.load(path)
    return {
        "file": path.name,
        "shape": list(image.shape),
        "affine": image.affine[:3].ravel().tolist(),
        "pixdim4": float(image.header["pixdim"][4]),
        "values": numbers(image.get_fdata()),
    }


def make_readers(out):
    records = []

    def save(name, data, affine=AFFINE, kind=nibabel.Nifti1Image, edit=None, order="<"):
        header = kind.header_class(endianness=order)
        image = kind(data, affine, header)
        image.header.set_xyzt_units("mm", "sec")
        if data.ndim > 3:
            image.header["pixdim"][4] = 0.8
        if edit:
            edit(image)
        path = out / name
        nibabel.save(image, path)
        records.append(reader_record(path))
        return path

    shape = (4, 3, 2, 3)
    for index, kind in enumerate(["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8"]):
        if kind[0] == "f":
            data = RNG.normal(size=shape).astype(kind)
        else:
            info = numpy.iinfo(kind)
            data = RNG.integers(info.min // 2, info.max // 2, size=shape, dtype=kind)
        order = "<" if index % 2 else ">"
        version = nibabel.Nifti2Image if index % 3 == 0 else nibabel.Nifti1Image
        ending = "nii.gz" if index % 2 else "nii"
        save(f"type_{kind}.{ending}", data, kind=version, order=order)
    small = RNG.integers(-100, 100, size=shape).astype("i2")

    path = save("scaled.nii.gz", small)
    raw = bytearray(gzip.decompress(path.read_bytes()))
    raw[112:120] = numpy.array([0.25, -3.5], "<f4").tobytes()
    path.write_bytes(gzip.compress(bytes(raw), mtime=0))
    records[-1] = reader_record(path)

    halves = bytes(raw)
    path = out / "two_members.nii.gz"
    path.write_bytes(gzip.compress(halves[:500], mtime=0) + gzip.compress(halves[500:], mtime=0))
    records.append(reader_record(path))

    def extension(image):
        image.header.extensions.append(nibabel.nifti1.Nifti1Extension("comment", b"two words"))

    save("extension.nii", small, edit=extension)
    save("three_dimensions.nii", small[..., 0])

    def patched(name, edits, kind=nibabel.Nifti1Image):
        path = save(name, small, kind=kind)
        raw = bytearray(path.read_bytes())
        for at, value in edits:
            value = numpy.asarray(value).tobytes()
            raw[at : at + len(value)] = value
        path.write_bytes(bytes(raw))
        records[-1] = reader_record(path)

    quaternion = numpy.array([0.1, -0.3, 0.5], "<f4")
    no_sform = (254, numpy.int16(0))
    patched("qform.nii", [no_sform, (252, numpy.int16(1)), (256, quaternion), (76, numpy.float32(-1))])
    patched("qfac_repaired.nii", [no_sform, (252, numpy.int16(2)), (256, quaternion), (76, numpy.float32(0))])
    patched("half_turn.nii", [no_sform, (252, numpy.int16(1)), (256, numpy.array([0, 1, 0], "<f4"))])
    patched("no_affine.nii", [no_sform, (252, numpy.int16(0))])
    patched("negative_spacing.nii", [no_sform, (252, numpy.int16(1)), (84, numpy.float32(-3)), (256, quaternion)])
    patched("unknown_code.nii", [(254, numpy.int16(77)), (252, numpy.int16(1))])
    patched("slope_nan.nii", [(112, numpy.float32(numpy.nan))])
    patched(
        "qform2.nii",
        [(348, numpy.int32(0)), (344, numpy.int32(1)), (352, numpy.array([0.1, -0.3, 0.5], "<f8"))],
        nibabel.Nifti2Image,
    )
    path = save("late_data.nii", small)
    raw = bytearray(path.read_bytes())
    raw[108:112] = numpy.float32(400).tobytes()
    path.write_bytes(bytes(raw[:352]) + b"\xaa" * 48 + bytes(raw[352:]))
    records[-1] = reader_record(path)
    (out / "readers.json").write_text(json.dumps(records))


def blocks(shape, regions):
    """A label image of blocks with a border of background."""
    labels = numpy.zeros(shape, dtype="i2")
    inner = tuple(slice(1, n - 1) for n in shape)
    counts = numpy.indices(labels[inner].shape)
    sizes = [max(1, n // 3) for n in labels[inner].shape]
    number = sum((c // s) * k for c, s, k in zip(counts, sizes, (1, 3, 7)))
    labels[inner] = number % (regions + 1)
    return labels


def make_parcellations(out):
    records = []
    data_shape, frames = (12, 14, 10), 5
    data_affine = numpy.diag([3.0, 3.0, 3.0, 1.0])
    data_affine[:3, 3] = [-17, -20, -12]
    turn = nibabel.eulerangles.euler2mat(0.2, -0.1, 0.15)
    rotated = numpy.eye(4)
    rotated[:3, :3] = turn @ numpy.diag([2.2, 2.0, 2.6])
    rotated[:3, 3] = [-19, -22, -13]
    grids = {
        "same": (data_shape, data_affine),
        "shifted": (data_shape, data_affine + numpy.array([[0, 0, 0, 4.5], [0, 0, 0, -3], [0, 0, 0, 1.5], [0, 0, 0, 0]])),
        "finer": ((20, 22, 17), numpy.array([[2.0, 0, 0, -18], [0, 2, 0, -21], [0, 0, 2, -13], [0, 0, 0, 1]])),
        "mirrored": ((20, 22, 17), numpy.array([[-2.0, 0, 0, 19], [0, 2, 0, -21], [0, 0, 2, -13], [0, 0, 0, 1]])),
        "thirds": ((12, 14, 10), numpy.array([[3.3, 0, 0, -17.6], [0, 3.3, 0, -20.9], [0, 0, 3.3, -12.1], [0, 0, 0, 1]])),
        "swapped": ((22, 20, 17), numpy.array([[0, 2.0, 0, -18], [2, 0, 0, -21], [0, 0, 2, -13], [0, 0, 0, 1]])),
        "rotated": ((18, 20, 15), rotated),
    }
    mask = numpy.zeros(data_shape, "u1")
    mask[1:-1, 1:-1, 1:-1] = 1
    mask[:4, :4, :4] = 0
    mask_image = nibabel.Nifti1Image(mask, data_affine)
    nibabel.save(mask_image, out / "mask.nii.gz")
    values = RNG.normal(1000, 50, size=(*data_shape, frames))
    integers = nibabel.Nifti1Image(values.astype("i2"), data_affine)
    nibabel.save(integers, out / "bold_i2.nii.gz")
    holes = values.astype("f4")
    holes[2, 3:9, 4, :] = numpy.nan
    holes[5, 5, 5, 2] = numpy.inf
    nibabel.save(nibabel.Nifti1Image(holes, data_affine), out / "bold_holes.nii")
    for name, (shape, affine) in grids.items():
        atlas = nibabel.Nifti1Image(blocks(shape, 9), affine)
        nibabel.save(atlas, out / f"atlas_{name}.nii.gz")
        for bold in ["bold_i2.nii.gz", "bold_holes.nii"]:
            for masked in [None, "mask.nii.gz"]:
                image = nibabel.load(out / bold)
                labels = nibabel.load(out / f"atlas_{name}.nii.gz")
                masker = NiftiLabelsMasker(
                    labels, mask_img=out / masked if masked else None, resampling_target="data", standardize=None
                )
                signals = masker.fit_transform(image)
                ids = [int(label) for column, label in masker.region_ids_.items() if column != "background"]
                resampled = resample_to_img(labels, image, interpolation="nearest", copy_header=True, force_resample=True)
                records.append(
                    {
                        "atlas": f"atlas_{name}.nii.gz",
                        "bold": bold,
                        "mask": masked,
                        "ids": ids,
                        "signals": numpy.asarray(signals, float).ravel().tolist(),
                        "labels": numpy.asarray(resampled.dataobj).astype(int).ravel(order="F").tolist(),
                    }
                )
                assert signals.shape == (frames, len(ids))
    (out / "parcellate.json").write_text(json.dumps(records))


def make_cifti(out):
    from nibabel import cifti2

    left = numpy.zeros(40, bool)
    left[[0, 3, 4, 7, 8, 20, 21, 22, 39]] = True
    right = numpy.zeros(40, bool)
    right[5:15] = True
    volume = numpy.zeros((5, 6, 4), bool)
    volume[1:3, 2:5, 1:3] = True
    axis = (
        cifti2.BrainModelAxis.from_mask(left, name="CortexLeft")
        + cifti2.BrainModelAxis.from_mask(right, name="CortexRight")
        + cifti2.BrainModelAxis.from_mask(volume, name="ThalamusLeft", affine=AFFINE)
    )
    points, frames = len(axis), 7
    data = RNG.normal(100, 10, size=(frames, points)).astype("f4")
    series = cifti2.SeriesAxis(start=0, step=0.72, size=frames, unit="second")
    cifti2.Cifti2Image(data, (series, axis)).to_filename(out / "dense.dtseries.nii")
    keys = numpy.arange(points) % 5
    # Sides in the names have to be those of the structures: two regions left, two right, one key a volume.
    keys[:9] = [1, 1, 2, 2, 0, 1, 2, 2, 1]
    keys[9:19] = [3, 4, 3, 4, 3, 4, 4, 0, 3, 3]
    keys[19:] = 5
    table = {0: ("???", (0, 0, 0, 0))}
    names = {1: "LH_a", 2: "LH_b", 3: "RH_a", 4: "RH_b", 5: "thalamus"}
    table.update({key: (name, (1, 0, 0, 1)) for key, name in names.items()})
    labels = cifti2.LabelAxis(["map"], [table])
    cifti2.Cifti2Image(keys[None].astype("f4"), (labels, axis)).to_filename(out / "atlas.dlabel.nii")
    # The same series with its points in another order and one structure missing: matched by place, not by position.
    other = axis[numpy.r_[19:points, 0:9]]
    cifti2.Cifti2Image(data[:, numpy.r_[19:points, 0:9]], (series, other)).to_filename(out / "reordered.dtseries.nii")
    parcel_names = list(names.values())
    means = numpy.stack([data[:, keys == key].astype(float).mean(axis=1) for key in names], axis=1)
    parcels = cifti2.ParcelsAxis(
        parcel_names,
        [numpy.zeros((0, 3), int) for _ in names],
        [{"CIFTI_STRUCTURE_CORTEX_LEFT": numpy.array([i])} for i in range(len(names))],
        nvertices={"CIFTI_STRUCTURE_CORTEX_LEFT": 40},
    )
    parcellated = means.astype("f4")
    cifti2.Cifti2Image(parcellated, (series, parcels)).to_filename(out / "parcels.ptseries.nii")
    read = nibabel.load(out / "parcels.ptseries.nii")
    assert numpy.array_equal(numpy.asarray(read.dataobj), parcellated)
    step = read.header.get_axis(0).step
    record = {"names": parcel_names, "tr_seconds": float(step), "frames": frames, "means": means.ravel().tolist()}
    (out / "cifti.json").write_text(json.dumps(record))


def make_tables(out):
    from scipy.io import savemat

    series = RNG.normal(100, 10, size=(6, 4)).astype("f4")
    numpy.save(out / "series.npy", series)
    numpy.savez(out / "series.npz", series=series, tr=numpy.float64(0.8))
    numpy.savez_compressed(out / "series_deflated.npz", series=series)
    numpy.savez(out / "two_arrays.npz", a=series, b=series)
    variables = {"tr": 0.8, "name": "rest", "series": series}
    savemat(out / "series_v6.mat", variables, do_compression=False)
    savemat(out / "series_v7.mat", variables, do_compression=True)


def make_hdf5(out):
    """The same table as h5py writes it, by default and with the newest layout, and as MATLAB writes `save -v7.3`."""
    import h5py

    series = numpy.load(out / "series.npy")
    with h5py.File(out / "series.h5", "w") as file:
        file["rest/series"] = series
        file["tr"] = 0.8
        file["regions"] = ["a", "b", "c", "d"]
    with h5py.File(out / "series_latest.h5", "w", libver="latest") as file:
        options = dict(chunks=(2, 3), compression="gzip", shuffle=True, fletcher32=True)
        file.create_dataset("series", data=series.astype(">f8"), **options)
        file.create_dataset("long", data=numpy.arange(20), maxshape=(None,), chunks=(8,))
    with h5py.File(out / "two_matrices.h5", "w") as file:
        file["a"], file["b"] = series, series
    # MATLAB: 512 bytes of its own before the file, columns together, the class of a variable as an attribute.
    with h5py.File(out / "series_v73.mat", "w", userblock_size=512) as file:
        dataset = file.create_dataset("series", data=series.T, chunks=(4, 3), compression="gzip", compression_opts=3)
        dataset.attrs["MATLAB_class"] = numpy.bytes_("single")
        text = file.create_dataset("name", data=numpy.array([[ord(c)] * 2 for c in "rest"], "u2"))
        text.attrs["MATLAB_class"] = numpy.bytes_("char")
        file.create_dataset("tr", data=numpy.array([[0.8]])).attrs["MATLAB_class"] = numpy.bytes_("double")
        file.create_group("#refs#")["a"] = series
    header = b"MATLAB 7.3 MAT-file, Platform: GLNXA64, Created on: Mon Jan  1 00:00:00 2024 HDF5 schema 1.00 ."
    with open(out / "series_v73.mat", "r+b") as file:
        file.write(header.ljust(116) + bytes(8) + b"\x00\x02IM")


def main(out):
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    make_readers(out)
    make_parcellations(out)
    make_cifti(out)
    make_tables(out)
    make_hdf5(out)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Write the table of the 450 regions of Schaefer-400 (7 networks) + Tian S3.

usage: python make_atlas_table.py ATLAS_DIR OUT.tsv

ATLAS_DIR holds the label table (a name line, then `id r g b a`) and the 2 mm
MNI152NLin6Asym label image. Names, networks and centroids are facts about the
atlas; the image itself stays outside the project. Needs numpy and nibabel.
"""

import pathlib
import re
import sys

import nibabel
import numpy

STEM = "Schaefer2018_400Parcels_7Networks_order_Tian_Subcortex_S3"
CORTICAL = re.compile(r"7Networks_([LR])H_([A-Za-z]+)_")


def read_names(path):
    lines = path.read_text().splitlines()
    return {int(lines[i + 1].split()[0]): lines[i].strip() for i in range(0, len(lines) - 1, 2)}


def network_and_hemisphere(name):
    found = CORTICAL.match(name)
    if found:
        return found.group(2), found.group(1)
    return "Subcortical", {"lh": "L", "rh": "R"}[name.rsplit("-", 1)[1]]


def main(atlas_dir, out):
    atlas_dir = pathlib.Path(atlas_dir)
    names = read_names(atlas_dir / f"{STEM}_label.txt")
    assert sorted(names) == list(range(1, 451)), "expected the ids 1 to 450"
    image = nibabel.load(atlas_dir / f"{STEM}_MNI152NLin6Asym_2mm.nii.gz")
    labels = numpy.asanyarray(image.dataobj).astype(int)
    rows = ["id\tname\tnetwork\themisphere\tx_mm\ty_mm\tz_mm"]
    for region in range(1, 451):
        voxels = numpy.argwhere(labels == region)
        assert len(voxels) > 0, f"region {region} has no voxel"
        x, y, z = nibabel.affines.apply_affine(image.affine, voxels.mean(axis=0))
        network, hemisphere = network_and_hemisphere(names[region])
        assert (x < 0) == (hemisphere == "L"), f"{names[region]} lies in the other hemisphere"
        rows.append(f"{region}\t{names[region]}\t{network}\t{hemisphere}\t{x:.1f}\t{y:.1f}\t{z:.1f}")
    pathlib.Path(out).write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

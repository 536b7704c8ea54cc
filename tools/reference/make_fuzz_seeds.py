"""Fill fuzz/corpus with small seeds taken from the generated goldens.

usage: python make_fuzz_seeds.py GOLDEN_IMAGE_DIR FUZZ_DIR
"""

import pathlib
import shutil
import sys


def main(golden, fuzz):
    golden, corpus = pathlib.Path(golden), pathlib.Path(fuzz) / "corpus"
    for target in ["nifti", "cifti_xml", "tables", "npy"]:
        (corpus / target).mkdir(parents=True, exist_ok=True)
    for path in sorted(golden.glob("*.nii*")):
        if path.stat().st_size < 4000:
            shutil.copyfile(path, corpus / "nifti" / path.name)
        if ".d" in path.name or ".p" in path.name:
            raw = path.read_bytes()
            end = raw.index(b"</CIFTI>") + len(b"</CIFTI>")
            (corpus / "cifti_xml" / f"{path.name}.xml").write_bytes(raw[raw.index(b"<CIFTI") : end])
    shutil.copyfile(golden / "series.npy", corpus / "npy" / "series.npy")
    seeds = {
        "tsv": b"\x00a\tb\n1\t2\nn/a\t4\n",
        "csv": b"\x01x,y\n1,2.5e3\n-3,nan\n",
        "afni": b"\x02#1\t#2\n0.5\t-1\n2e1\t3\n",
        "npz": b"\x03" + (golden / "series_deflated.npz").read_bytes(),
        "mat": b"\x04" + (golden / "series_v7.mat").read_bytes(),
    }
    for name, seed in seeds.items():
        (corpus / "tables" / name).write_bytes(seed)


if __name__ == "__main__":
    main(*sys.argv[1:])

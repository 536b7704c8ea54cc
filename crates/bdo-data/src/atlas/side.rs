//! What names state, against what is so: the side of a region, the space of a file.

use std::path::Path;

use super::Hemisphere;
use crate::nifti::Affine;
use crate::problem::{Problem, ReadError};

/// A region this close to the midline may lie on either side of it: templates differ by that much.
const MIDLINE_MM: f64 = 3.0;

/// The side a region's name states, if it states exactly one: a part `LH`, `RH`, `left`, `right`, `L` or `R`.
pub fn side_of_name(name: &str) -> Option<Hemisphere> {
    let mut sides =
        name.split(|c: char| !c.is_ascii_alphanumeric()).filter_map(|part| match part.to_ascii_lowercase().as_str() {
            "lh" | "left" => Some(Hemisphere::Left),
            "rh" | "right" => Some(Hemisphere::Right),
            _ if part == "L" => Some(Hemisphere::Left),
            _ if part == "R" => Some(Hemisphere::Right),
            _ => None,
        });
    let side = sides.next()?;
    sides.all(|other| other == side).then_some(side)
}

/// Refuses an atlas with a region whose name and place disagree about its side.
///
/// `regions` are the name and mean voxel (where it has voxels) of every region.
pub(super) fn check_sides<'a>(
    path: &Path,
    affine: &Affine,
    regions: impl Iterator<Item = (&'a str, Option<[f64; 3]>)>,
) -> Result<(), ReadError> {
    let mut wrong: Vec<(&str, Hemisphere, f64)> = vec![];
    let mut sided = 0;
    for (name, centre) in regions {
        let Some((side, centre)) = side_of_name(name).zip(centre) else { continue };
        sided += 1;
        let x = affine.apply(centre)[0];
        let beyond = if side == Hemisphere::Left { x } else { -x };
        if beyond > MIDLINE_MM {
            wrong.push((name, side, x));
        }
    }
    let Some((region, side, x_mm)) = wrong.first().copied() else { return Ok(()) };
    let name_of = |left: bool| if left { "left" } else { "right" };
    let others = match wrong.len() {
        1 => String::new(),
        n if n * 10 > sided * 9 => format!(" ({n} of {sided} sided regions: the image is mirrored)"),
        n => format!(" ({n} of {sided} sided regions)"),
    };
    let expected = format!("its centre on the {} as its name says", name_of(side == Hemisphere::Left));
    let found = format!("x = {x_mm:.1} mm, on the {}{others}", name_of(x_mm < 0.0));
    Err(ReadError::content(path, Problem::new(format!("region {region:?}"), expected, found)))
}

/// Refuses data whose name says another space than the atlas'. Where either is unknown there is nothing to compare.
pub fn check_space(data: Option<&str>, atlas: Option<&str>) -> Result<(), Problem> {
    match (data, atlas) {
        (Some(data), Some(atlas)) if !data.eq_ignore_ascii_case(atlas) => {
            Err(Problem::new("space", format!("{atlas} as the atlas is in"), data))
        }
        _ => Ok(()),
    }
}

/// The space a file name states: a `space-` or `tpl-` entity, or the name of a template as one of its parts.
pub fn space_of_name(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_string_lossy().into_owned();
    let stem = name.split('.').next()?;
    let entity = |key: &str| stem.split('_').find_map(|part| part.strip_prefix(key)).map(str::to_owned);
    let template = || stem.split('_').find(|part| part.starts_with("MNI152NLin")).map(str::to_owned);
    entity("space-").or_else(|| entity("tpl-")).or_else(template)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_in_names() {
        for (name, side) in [
            ("7Networks_LH_Vis_1", Some(Hemisphere::Left)),
            ("HIP-head-m-rh", Some(Hemisphere::Right)),
            ("Left-Thalamus-Proper", Some(Hemisphere::Left)),
            ("Hippocampus_R", Some(Hemisphere::Right)),
            ("Vermis", None),
            ("LHippocampus", None),
            ("left and right insula", None),
            ("area r", None),
        ] {
            assert_eq!(side_of_name(name), side, "{name}");
        }
    }
}

#[cfg(test)]
mod space_tests {
    use super::*;

    #[test]
    fn spaces_in_names() {
        let space = |name: &str| space_of_name(Path::new(name));
        assert_eq!(space("a/sub-1_space-MNI152NLin6Asym_res-2_bold.nii.gz").as_deref(), Some("MNI152NLin6Asym"));
        assert_eq!(space("tpl-MNI152NLin2009cAsym_atlas-x_dseg.nii.gz").as_deref(), Some("MNI152NLin2009cAsym"));
        assert_eq!(space("Schaefer_S3_MNI152NLin6Asym_2mm.nii.gz").as_deref(), Some("MNI152NLin6Asym"));
        assert_eq!(space("bold.nii.gz"), None);
        let message = check_space(Some("T1w"), Some("MNI152NLin6Asym")).map_err(|e| e.to_string());
        assert_eq!(message, Err("space: expected MNI152NLin6Asym as the atlas is in, found T1w".into()));
        assert!(check_space(None, Some("MNI152NLin6Asym")).is_ok());
    }
}

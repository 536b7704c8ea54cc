//! The side of the brain a region's name states, against the side it lies on.

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

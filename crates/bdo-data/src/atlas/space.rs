//! The space a file says it is in.

use crate::problem::Problem;
use std::path::Path;

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

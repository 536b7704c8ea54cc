//! A BIDS file name: `key-value` entities, a suffix and an ending.

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BidsName {
    entities: Vec<(String, String)>,
    /// What kind of file it is: `bold`, `timeseries`.
    pub suffix: String,
    /// From the first dot on: `.nii.gz`.
    pub ending: String,
}

impl BidsName {
    /// Takes a file name apart; `None` for names of another form.
    pub fn parse(name: &str) -> Option<Self> {
        let (stem, ending) = name.split_at(name.find('.')?);
        let mut parts: Vec<&str> = stem.split('_').collect();
        let suffix = parts.pop().filter(|s| !s.is_empty() && !s.contains('-'))?;
        let entity = |part: &str| {
            let (key, value) = part.split_once('-')?;
            (!key.is_empty() && !value.is_empty()).then(|| (key.to_owned(), value.to_owned()))
        };
        let entities = parts.into_iter().map(entity).collect::<Option<Vec<_>>>()?;
        Some(Self { entities, suffix: suffix.to_owned(), ending: ending.to_owned() })
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.entities.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    pub fn len(&self) -> usize {
        self.entities.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entities.is_empty()
    }

    /// The parcellation, in either spelling.
    pub fn atlas(&self) -> Option<&str> {
        self.get("atlas").or_else(|| self.get("seg"))
    }

    /// Whether every entity of this name, but for those left out of the comparison, is one of the other's too.
    pub fn applies_to(&self, other: &Self, leaving_out: &[&str]) -> bool {
        let counted = |e: &&(String, String)| !leaving_out.contains(&e.0.as_str());
        self.entities.iter().filter(counted).all(|e| other.entities.contains(e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_apart() {
        let name = BidsName::parse("sub-01_ses-a_task-rest_space-MNI_desc-preproc_bold.nii.gz").unwrap();
        assert_eq!((name.get("sub"), name.get("desc"), name.get("run")), (Some("01"), Some("preproc"), None));
        assert_eq!((name.suffix.as_str(), name.ending.as_str()), ("bold", ".nii.gz"));
        assert!(BidsName::parse("task-rest_bold.json").unwrap().applies_to(&name, &[]));
        assert!(!BidsName::parse("task-nback_bold.json").unwrap().applies_to(&name, &[]));
        for other in ["rfMRI_REST1_LR.nii", "sub-01", "sub-_bold.nii", "bold", "sub-01_task-rest.nii"] {
            assert_eq!(BidsName::parse(other), None, "{other}");
        }
    }
}

//! Paths that are meant by a pattern such as `*_hp2000_clean.dtseries.nii`.

/// A pattern: `*` stands for any text within a name, `**` for any text, `?` for one character.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(String);

impl Pattern {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Whether it means a path below the source. A pattern without a slash is compared with the file name.
    pub fn means(&self, path: &str) -> bool {
        let text = if self.0.contains('/') { path } else { path.rsplit('/').next().unwrap_or(path) };
        let (pattern, text): (Vec<char>, Vec<char>) = (self.0.chars().collect(), text.chars().collect());
        // fits[j]: the pattern so far fits the first j characters.
        let mut fits = vec![false; text.len() + 1];
        fits[0] = true;
        let mut i = 0;
        while i < pattern.len() {
            let across = pattern[i..].starts_with(&['*', '*']);
            let mut next = vec![false; text.len() + 1];
            if pattern[i] == '*' {
                next[0] = fits[0];
                for j in 1..=text.len() {
                    next[j] = fits[j] || (next[j - 1] && (across || text[j - 1] != '/'));
                }
            } else {
                for j in 1..=text.len() {
                    let same = pattern[i] == text[j - 1] || (pattern[i] == '?' && text[j - 1] != '/');
                    next[j] = fits[j - 1] && same;
                }
            }
            fits = next;
            i += if across { 2 } else { 1 };
        }
        fits[text.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stay_within_a_name_and_double_stars_do_not() {
        let means = |pattern: &str, path: &str| Pattern::new(pattern).means(path);
        assert!(means("*_clean.nii.gz", "100307/Results/a_clean.nii.gz"));
        assert!(!means("*_clean.nii.gz", "a_clean_vn.nii.gz"));
        assert!(means("sub-*/func/*.tsv", "sub-01/func/x.tsv"));
        assert!(!means("sub-*/*.tsv", "sub-01/func/x.tsv"));
        assert!(means("**/x?.tsv", "sub-01/func/x1.tsv"));
        assert!(!means("", "x") && means("*", "x"));
    }
}

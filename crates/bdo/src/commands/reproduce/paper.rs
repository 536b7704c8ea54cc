//! What the paper reports: the numbers of its Tables 1 to 3, to be set beside what is found here. Its figures exist as pictures
//! only; of them the shape that the text states is kept.

use bdo_train::settings::Size;

use crate::args::Choice;

/// A table of the paper.
pub(super) struct Reported {
    pub(super) data: &'static str,
    /// First the label and score of each column, then the rows: how the paper calls it, the row of `bdo compare` that is its
    /// like, the size of a BDO model, then mean and spread of each score.
    table: &'static str,
}

pub(super) struct ReportedRow {
    pub(super) name: &'static str,
    pub(super) row: &'static str,
    pub(super) size: Option<Size>,
    /// Mean and spread.
    pub(super) scores: Vec<(f64, f64)>,
}

impl Reported {
    fn lines(&self) -> impl Iterator<Item = Vec<&'static str>> {
        self.table.trim().lines().map(|line| line.split('|').map(str::trim).collect())
    }

    pub(super) fn columns(&self) -> Vec<&'static str> {
        self.lines().next().map_or_else(Vec::new, |cells| cells[3..].to_vec())
    }

    pub(super) fn rows(&self) -> Vec<ReportedRow> {
        let score = |cell: &&str| {
            let (mean, spread) = cell.split_once(' ')?;
            mean.parse().ok().zip(spread.parse().ok())
        };
        let row = |cells: Vec<&'static str>| ReportedRow {
            name: cells[0],
            row: cells[1],
            size: Size::CHOICES.iter().find(|(_, name, _)| *name == cells[2]).map(|(size, ..)| *size),
            scores: cells[3..].iter().filter_map(score).collect(),
        };
        self.lines().skip(1).map(row).collect()
    }
}

pub(super) const TABLE1: Reported = Reported {
    data: "UK Biobank, the 20 % held out of pre-training",
    table: "
name                    | row                | size | age MSE     | age rho     | sex ACC    | sex F1
BrainNetCNN             | brainnetcnn        |      | 0.648 0.018 | 0.621 0.012 | 90.89 0.14 | 90.87 0.12
BrainGNN                | braingnn           |      | 0.914 0.024 | 0.430 0.010 | 79.07 1.08 | 79.03 1.09
BrainNetTF              | brainnettf         |      | 0.561 0.004 | 0.673 0.003 | 91.19 0.51 | 91.17 0.50
BDO, LP                 | bdo-probe          | base | 0.600 0.004 | 0.635 0.005 | 88.25 0.78 | 88.21 0.79
BrainLM, FT             | brainlm-finetune   |      | 0.649 0.008 | 0.618 0.005 | 89.28 0.72 | 89.26 0.71
Brain-JEPA, FT (quoted) | brainjepa-finetune |      | 0.501 0.034 | 0.718 0.021 | 88.17 0.06 | 88.58 0.11
BDO, FT                 | bdo-finetune       | base | 0.481 0.010 | 0.722 0.007 | 92.59 0.68 | 92.57 0.69
",
};

pub(super) const TABLE2: Reported = Reported {
    data: "HCP-Aging, 724 people",
    table: "
name                         | row                | size  | age MSE     | age rho     | sex ACC    | sex F1     | neuroticism MSE | neuroticism rho | flanker MSE | flanker rho
BrainNetCNN                  | brainnetcnn        |       | 0.472 0.054 | 0.727 0.040 | 72.36 3.66 | 71.42 4.03 | 1.039 0.093     | 0.076 0.094     | 1.001 0.097 | 0.310 0.083
BrainGNN                     | braingnn           |       | 0.570 0.050 | 0.657 0.031 | 66.81 2.54 | 65.22 2.14 | 1.076 0.069     | 0.094 0.044     | 1.137 0.049 | 0.229 0.051
BrainNetTF                   | brainnettf         |       | 0.389 0.038 | 0.780 0.036 | 75.00 2.28 | 74.06 2.78 | 1.209 0.051     | 0.015 0.055     | 0.959 0.058 | 0.357 0.071
BDO, LP (5M)                 | bdo-probe          | tiny  | 0.594 0.040 | 0.635 0.031 | 64.12 0.65 | 63.06 0.47 | 0.991 0.020     | 0.091 0.049     | 0.929 0.029 | 0.365 0.031
BDO, LP (21M)                | bdo-probe          | small | 0.461 0.013 | 0.729 0.011 | 70.37 0.87 | 68.68 0.78 | 0.945 0.016     | 0.209 0.037     | 0.904 0.024 | 0.387 0.041
BDO, LP (85M)                | bdo-probe          | base  | 0.404 0.010 | 0.768 0.008 | 72.00 2.95 | 71.30 2.19 | 0.986 0.023     | 0.131 0.037     | 0.856 0.049 | 0.450 0.072
BrainLM, FT (86M)            | brainlm-finetune   |       | 0.340 0.019 | 0.818 0.012 | 72.78 2.12 | 72.36 2.22 | 1.093 0.085     | 0.132 0.064     | 0.859 0.010 | 0.461 0.015
Brain-JEPA, FT (86M, quoted) | brainjepa-finetune |       | 0.298 0.017 | 0.844 0.030 | 81.52 1.03 | 84.26 0.82 | 0.897 0.055     | 0.307 0.006     | 0.972 0.038 | 0.406 0.027
BDO, FT (85M)                | bdo-finetune       | base  | 0.273 0.010 | 0.851 0.006 | 79.40 4.07 | 78.98 4.38 | 0.894 0.001     | 0.307 0.017     | 0.847 0.037 | 0.464 0.072
",
};

pub(super) const TABLE3: Reported = Reported {
    data: "ABIDE (1102 people), ADHD200 (669), HCP-EP (176), TCP (236)",
    table: "
name          | row         | size  | ABIDE ACC  | ABIDE F1   | ADHD200 ACC | ADHD200 F1 | HCP-EP ACC | HCP-EP F1   | TCP ACC    | TCP F1
BrainNetCNN   | brainnetcnn |       | 64.39 2.17 | 64.23 2.27 | 55.49 4.39  | 53.62 5.15 | 70.29 6.90 | 58.07 9.52  | 56.96 7.33 | 50.73 7.59
BrainGNN      | braingnn    |       | 56.82 3.40 | 56.73 3.43 | 52.78 3.27  | 51.59 2.89 | 73.14 6.90 | 65.46 9.06  | 53.04 2.22 | 48.24 7.41
BrainNetTF    | brainnettf  |       | 66.36 3.66 | 66.30 3.67 | 54.29 3.02  | 50.90 3.18 | 71.43 6.52 | 61.26 10.32 | 62.17 5.60 | 55.41 5.69
BDO, LP (5M)  | bdo-probe   | tiny  | 62.42 2.68 | 62.30 2.61 | 59.65 2.32  | 56.90 1.70 | 73.33 7.50 | 64.35 13.9  | 60.14 3.69 | 42.04 5.02
BDO, LP (21M) | bdo-probe   | small | 63.79 1.83 | 63.67 1.71 | 61.15 1.97  | 59.71 2.66 | 71.43 4.04 | 64.95 5.07  | 60.87 0.00 | 53.68 1.53
BDO, LP (85M) | bdo-probe   | base  | 66.67 1.13 | 66.58 1.02 | 61.40 1.97  | 59.52 2.87 | 75.24 3.56 | 67.23 6.22  | 63.77 2.05 | 56.88 3.45
",
};

/// What the text says of a figure.
pub(super) const FIGURE2: &str = "The smallest BDO (5M) performs like the other foundation models (86M) at a fraction of their \
    parameters and memory; the numbers of the figure are not in the text.";
pub(super) const FIGURE3: &str = "Larger models reach higher plateaus over pre-training epochs (HCP-A age, linear probe: rho 0.635 at 5M, \
    0.729 at 21M, 0.768 at 85M), and 25, 50, 75 and 100 % of the data are better in this order.";
pub(super) const FIGURE4: &str =
    "Principal components show a separation by age, which UMAP preserves; no numbers are given.";
pub(super) const FIGURE5: &str = "rho rises with the mask ratio up to 0.75 and falls beyond; tau > 0 is better than tau = 0 and declines \
    above 0.03. The successor of the paper gives age rho 0.445 without masking and 0.738 at 0.75; 0.521 for the latent target alone, \
    0.717 for the reconstruction alone, 0.738 for both.";
pub(super) const SPLITS: &str = "6:2:2 by person, stratified by class or by bins of a number, seeds 0, 1, 2.";
pub(super) const RECONSTRUCTION: &str =
    "Five scans at a mask ratio of 0.75: original, context, reconstruction, absolute error.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::compare::row::Row;

    #[test]
    fn every_row_has_a_score_for_each_column_and_a_row_of_compare() {
        for (table, rows) in [(&TABLE1, 7), (&TABLE2, 9), (&TABLE3, 6)] {
            assert_eq!(table.rows().len(), rows);
            for row in table.rows() {
                assert_eq!(row.scores.len(), table.columns().len(), "{}", row.name);
                assert!(Row::CHOICES.iter().any(|(_, name, _)| *name == row.row), "{}", row.row);
                assert_eq!(row.size.is_some(), row.row.starts_with("bdo"), "{}", row.name);
            }
        }
    }
}

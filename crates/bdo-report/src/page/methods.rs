//! The text for a methods section, with what it cites.

/// A work that is built on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Citation {
    /// The model.
    Bdo,
    /// Closed-form states between observations.
    Acssm,
    /// The projection.
    Umap,
    /// Test of repeated splits.
    NadeauBengio,
    /// False discovery rate.
    BenjaminiHochberg,
    /// Intervals.
    Bootstrap,
    /// Harmonisation.
    Combat,
    /// Calibration error.
    Calibration,
    /// Colours.
    Colours,
    /// The optimiser.
    Adam,
    /// Head motion.
    Displacement,
    /// Best linear prediction between frames.
    Kriging,
}

impl Citation {
    /// As it stands in a list.
    pub fn text(self) -> &'static str {
        match self {
            Self::Bdo => {
                "Park et al. A Foundational Brain Dynamics Model via Stochastic Optimal Control. 2025. arXiv:2502.04892."
            }
            Self::Acssm => {
                "Park B, Lee H, Lee J. Amortized Control of Continuous State Space Feynman-Kac Model for Irregular Time Series. ICLR 2025. arXiv:2410.05602."
            }
            Self::Umap => {
                "McInnes L, Healy J, Melville J. UMAP: Uniform Manifold Approximation and Projection for Dimension Reduction. 2018. arXiv:1802.03426."
            }
            Self::NadeauBengio => {
                "Nadeau C, Bengio Y. Inference for the Generalization Error. Machine Learning 52, 239-281, 2003."
            }
            Self::BenjaminiHochberg => {
                "Benjamini Y, Hochberg Y. Controlling the False Discovery Rate. Journal of the Royal Statistical Society B 57, 289-300, 1995."
            }
            Self::Bootstrap => {
                "Efron B. Bootstrap Methods: Another Look at the Jackknife. Annals of Statistics 7, 1-26, 1979."
            }
            Self::Combat => {
                "Johnson WE, Li C, Rabinovic A. Adjusting batch effects in microarray expression data using empirical Bayes methods. Biostatistics 8, 118-127, 2007."
            }
            Self::Calibration => {
                "Naeini MP, Cooper GF, Hauskrecht M. Obtaining Well Calibrated Probabilities Using Bayesian Binning. AAAI 2015."
            }
            Self::Colours => {
                "Okabe M, Ito K. Color Universal Design: How to make figures and presentations that are friendly to colorblind people. 2008."
            }
            Self::Adam => "Kingma DP, Ba J. Adam: A Method for Stochastic Optimization. ICLR 2015. arXiv:1412.6980.",
            Self::Displacement => {
                "Power JD, Barnes KA, Snyder AZ, Schlaggar BL, Petersen SE. Spurious but systematic correlations in functional connectivity MRI networks arise from subject motion. NeuroImage 59, 2142-2154, 2012."
            }
            Self::Kriging => "Cressie N. The origins of kriging. Mathematical Geology 22, 239-252, 1990.",
        }
    }
}

/// Sentences in order, and the works they cite, each once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Methods {
    sentences: Vec<String>,
    citations: Vec<Citation>,
}

impl Methods {
    /// Adds a paragraph; the numbers of the works it cites are written behind it.
    pub fn say(&mut self, text: impl Into<String>, cited: &[Citation]) -> &mut Self {
        let mut numbers = vec![];
        for work in cited {
            let place = self.citations.iter().position(|c| c == work).unwrap_or_else(|| {
                self.citations.push(*work);
                self.citations.len() - 1
            });
            numbers.push((place + 1).to_string());
        }
        let mark = if numbers.is_empty() { String::new() } else { format!(" [{}]", numbers.join(", ")) };
        let sentence = text.into() + &mark;
        // Two folders of one kind on a page are described once.
        if !self.sentences.contains(&sentence) {
            self.sentences.push(sentence);
        }
        self
    }

    /// The paragraphs.
    pub fn sentences(&self) -> &[String] {
        &self.sentences
    }

    /// The works, in the order of their numbers.
    pub fn citations(&self) -> &[Citation] {
        &self.citations
    }
}

//! The text of the methods section and the works it cites.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Citation {
    Bdo,
    Acssm,
    Brainlm,
    BrainJepa,
    Umap,
    NadeauBengio,
    BenjaminiHochberg,
    Bootstrap,
    Calibration,
    Colours,
    Adam,
    Adamw,
    Displacement,
    Kriging,
}

const WORKS: [&str; 14] = [
    "Park et al. A Foundational Brain Dynamics Model via Stochastic Optimal Control. 2025. arXiv:2502.04892.",
    "Park B, Lee H, Lee J. Amortized Control of Continuous State Space Feynman-Kac Model for Irregular Time Series. ICLR 2025. arXiv:2410.05602.",
    "Ortega Caro J et al. BrainLM: A Foundation Model for Brain Activity Recordings. ICLR 2024.",
    "Dong Z et al. Brain-JEPA: Brain Dynamics Foundation Model with Gradient Positioning and Spatiotemporal Masking. NeurIPS 2024. arXiv:2409.19407.",
    "McInnes L, Healy J, Melville J. UMAP: Uniform Manifold Approximation and Projection for Dimension Reduction. 2018. arXiv:1802.03426.",
    "Nadeau C, Bengio Y. Inference for the Generalization Error. Machine Learning 52, 239-281, 2003.",
    "Benjamini Y, Hochberg Y. Controlling the False Discovery Rate. Journal of the Royal Statistical Society B 57, 289-300, 1995.",
    "Efron B. Bootstrap Methods: Another Look at the Jackknife. Annals of Statistics 7, 1-26, 1979.",
    "Naeini MP, Cooper GF, Hauskrecht M. Obtaining Well Calibrated Probabilities Using Bayesian Binning. AAAI 2015.",
    "Okabe M, Ito K. Color Universal Design: How to make figures and presentations that are friendly to colorblind people. 2008.",
    "Kingma DP, Ba J. Adam: A Method for Stochastic Optimization. ICLR 2015. arXiv:1412.6980.",
    "Loshchilov I, Hutter F. Decoupled Weight Decay Regularization. ICLR 2019. arXiv:1711.05101.",
    "Power JD, Barnes KA, Snyder AZ, Schlaggar BL, Petersen SE. Spurious but systematic correlations in functional connectivity MRI networks arise from subject motion. NeuroImage 59, 2142-2154, 2012.",
    "Cressie N. The origins of kriging. Mathematical Geology 22, 239-252, 1990.",
];

impl Citation {
    pub(super) fn text(self) -> &'static str {
        WORKS[self as usize]
    }
}

/// Paragraphs in order, and the works they cite, each once.
#[derive(Debug, Default)]
pub(super) struct Methods {
    pub(super) sentences: Vec<String>,
    /// In the order of their numbers.
    pub(super) citations: Vec<Citation>,
}

impl Methods {
    /// Adds a paragraph followed by the numbers of the works it cites.
    pub(super) fn say(&mut self, text: String, cited: &[Citation]) {
        let mut numbers = vec![];
        for work in cited {
            let place = self.citations.iter().position(|c| c == work).unwrap_or_else(|| {
                self.citations.push(*work);
                self.citations.len() - 1
            });
            numbers.push((place + 1).to_string());
        }
        let mark = if numbers.is_empty() { String::new() } else { format!(" [{}]", numbers.join(", ")) };
        let sentence = text + &mark;
        // Two folders of one kind on a page are described once.
        if !self.sentences.contains(&sentence) {
            self.sentences.push(sentence);
        }
    }
}

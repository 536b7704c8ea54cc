//! The configuration of a run in sentences, for model cards and the methods of reports.

use crate::settings::{Kind, ScalingName, Settings};
use bdo_data::scaler::Scaling;
use bdo_model::config::{FingerprintOf, decimal};
use bdo_model::weights::input_words;

/// How a model is trained. Every sentence follows from the settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// How scans are scaled.
    pub input: String,
    /// Which frames are drawn and hidden.
    pub visits: String,
    pub objective: String,
    /// How it is minimised, and on whom.
    pub optimiser: String,
}

impl Words {
    /// The words of a configuration.
    pub fn of(settings: &Settings) -> Self {
        let train = &settings.train;
        let rates = format!("from {} to {}", train.learning_rate_start, train.learning_rate);
        let (batch, end, held_out) = (train.batch_size, train.learning_rate_end, train.held_out_percent);
        let people = format!("{held_out} % of the people are held out for validation and as many for testing.");
        if settings.method.kind != Kind::Bdo {
            let optimiser = format!(
                "AdamW with batches of {batch} scans; the learning rate rises linearly {rates} over {} of the steps and falls to {end} along a cosine; weight decay goes from {} to {}. {people}",
                percent(train.warmup),
                train.weight_decay_start,
                train.weight_decay_end
            );
            return Self { optimiser, ..token_words(settings) };
        }
        let optimiser = format!(
            "Adam with batches of {batch} scans; the learning rate rises linearly {rates} over ten epochs or 5 % of the steps, whichever is shorter, and falls to {end} along a cosine; gradients are clipped at norm {}. {people}",
            train.clip_norm
        );
        let input = input_words(&settings.model, settings.mask.centre);
        Self { input, visits: visits(settings), objective: objective(settings), optimiser }
    }

    /// The words of the configuration in a run record, with the scaling its model has, if there is one; `None` where this version
    /// does not understand it.
    pub fn of_record(settings: &serde_json::Value, scaling: Option<Scaling>) -> Option<Self> {
        let mut settings: Settings = serde_json::from_value(settings.clone()).ok()?;
        settings.method.scaling = match scaling {
            Some(Scaling::Means) => ScalingName::Means,
            Some(Scaling::Pooled) => ScalingName::Pooled,
            None => settings.method.scaling,
        };
        Some(Self::of(&settings))
    }
}

/// What the tokens of BrainLM and Brain-JEPA are made of.
pub fn token_input(scaling: Scaling) -> String {
    let scaled = match scaling {
        Scaling::Pooled => {
            "Each region is centred on its mean over the scan, then shifted by the median and divided by the inter-quartile range of the training people."
        }
        Scaling::Means => {
            "Each region is shifted by the median and divided by the inter-quartile range, over the training people, of its mean over time; scans are not centred."
        }
    };
    format!("{scaled} A token is a window of sixteen frames of one region; a visit has up to ten windows.")
}

/// Of BrainLM and Brain-JEPA.
fn token_words(settings: &Settings) -> Words {
    let (train, mask) = (&settings.train, &settings.mask);
    let input = match (settings.method.kind, settings.method.scaling) {
        (Kind::BrainJepa, ScalingName::Means) => token_input(Scaling::Means),
        (Kind::BrainJepa, ScalingName::Auto) => {
            let unless = "Where series were centred before, so that people do not differ in these means, each region is centred and scaled by the pooled values instead.";
            format!("{} {unless}", token_input(Scaling::Means))
        }
        _ => token_input(Scaling::Pooled),
    };
    let (visits, objective) = if settings.method.kind == Kind::BrainLm {
        let (tokens, attention) = (settings.model.dropout, settings.method.attention_dropout);
        (
            format!("{} of the tokens are hidden, drawn at random.", percent(mask.ratio)),
            format!(
                "The loss is the mean squared error at hidden tokens. Dropout is {tokens} after the code of places and {attention} in attention."
            ),
        )
    } else {
        (
            "The context is a block of regions and windows without the targets: other regions at the same time, the same and other regions at other times.".to_owned(),
            format!(
                "The loss is the smooth L1 distance to the normalised tokens of a moving average of the encoder, whose momentum goes from {} to {}.",
                train.ema_start, train.ema_end
            ),
        )
    };
    Words { input, visits, objective, optimiser: String::new() }
}

fn visits(settings: &Settings) -> String {
    let mask = &settings.mask;
    let from = if mask.stretch == 0.0 {
        "at random from the whole scan".to_owned()
    } else if mask.stretch <= 1.0 {
        "as a random stretch of consecutive frames".to_owned()
    } else {
        format!("at random from a random stretch of {} consecutive frames", (mask.frames as f64 * mask.stretch).ceil())
    };
    let regions = if mask.region_ratio > 0.0 {
        format!(" {} of the regions are hidden from the encoder in every frame.", percent(mask.region_ratio))
    } else {
        String::new()
    };
    let varied = if mask.varied > 0.0 {
        format!(
            "; for {} of the visits frames drawn from every second or third one, or at random from the whole scan",
            percent(mask.varied)
        )
    } else {
        String::new()
    };
    let hidden = if mask.ratio_least < mask.ratio {
        format!("between {} and {}", percent(mask.ratio_least), percent(mask.ratio))
    } else {
        percent(mask.ratio)
    };
    let pairs =
        if settings.model.loss.identity > 0.0 { " Each scan is visited twice, in each of its halves." } else { "" };
    format!(
        "At each visit {} frames (or all of a shorter scan) are drawn {from}{varied}, and {hidden} of them are hidden in all regions.{regions}{pairs}",
        mask.frames,
    )
}

fn objective(settings: &Settings) -> String {
    let (model, train) = (&settings.model, &settings.train);
    let (loss, tau) = (&model.loss, model.tau());
    let weight = if loss.reconstruction_weight == 1.0 {
        String::new()
    } else {
        format!("{} times ", loss.reconstruction_weight)
    };
    let enters = match (train.tau_start, train.tau_warmup) {
        (start, warmup) if start + warmup == 0.0 => "from the first step on".to_owned(),
        (start, 0.0) => format!("after {} of the steps", percent(start)),
        (start, warmup) => {
            format!("after {} of the steps, growing linearly over {} of them", percent(start), percent(warmup))
        }
    };
    let target = if tau == 0.0 {
        String::new()
    } else {
        format!(", plus ({enters}) {tau} times the squared distance to the latents of a moving average of the encoder")
    };
    let latents = if model.sample_latent {
        format!("drawn around the encoder output with standard deviation {}", loss.sigma_q)
    } else {
        "the encoder output itself, without noise".to_owned()
    };
    let draws = if loss.monte_carlo_samples == 1 {
        "one draw".to_owned()
    } else {
        format!("{} draws", loss.monte_carlo_samples)
    };
    let mut parts = String::new();
    if model.fingerprint {
        parts += &format!(
            " The control has a part that is constant over a visit: {} over its visible frames, in the {} coordinates in which training people differ most, each weighted by its signal-to-noise ratio in new people; what single frames add has mean 0.",
            match model.fingerprint_of {
                FingerprintOf::Correlations => "correlations of regions",
                FingerprintOf::Ridge => "coefficients of ridge regression of every region on all",
            },
            model.width
        );
    }
    if model.smoother {
        parts += " Hidden frames are predicted by kriging along principal directions of the training people, in eight groups with an autocorrelation each, plus what the network adds.";
    }
    let mut on_feature = String::new();
    if loss.identity > 0.0 {
        on_feature += &format!(
            ", plus {} times the cross-entropy (temperature {}) of finding the other visit of the same scan among people scanned in the same way by the mean control, through a network that is not kept",
            loss.identity, loss.identity_temperature
        );
    }
    format!(
        "The loss is {weight}the squared error at hidden frames, plus {} times the energy of the control{target}{on_feature}. Latents of visible frames are {latents}; the state is decoded from {draws} per step.{parts}",
        decimal(model.energy_weight())
    )
}

fn percent(share: f64) -> String {
    format!("{} %", (share * 1e4).round() / 100.0)
}

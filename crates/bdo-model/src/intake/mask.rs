//! Which frames of a scan one visit sees, and which of them are hidden from the encoder.

use bdo_data::random::{below, stream};
use rand_chacha::rand_core::Rng;
use serde::{Deserialize, Serialize};

/// How frames are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MaskSettings {
    /// Share of the drawn frames that are targets.
    pub ratio: f64,
    /// Frames drawn a visit; a scan with fewer gives all it has.
    pub frames: usize,
    /// Fewest frames of a training visit: each step draws its number between this one and `frames`, short ones as often
    /// as long ones on a scale of ratios. Among few frames attention finds a frame's neighbours sooner. 0 means `frames`.
    pub fewest_frames: usize,
    /// Draw frames from a random stretch of this many times as many frames, 1 for consecutive ones; 0 means the whole scan.
    pub stretch: f64,
    /// What a training visit is centred on. Evaluation and inference always centre on visible frames.
    pub centre: Centre,
    /// Draw frames from a random stretch of this length; 0 means the whole scan, or what `stretch` says.
    pub window_seconds: f64,
    /// Share of the regions that are hidden from the encoder in every visible frame of a training visit, others in every
    /// visit: teaches the model to fill in regions that a scan does not cover.
    pub region_ratio: f64,
}

impl Default for MaskSettings {
    fn default() -> Self {
        Self {
            ratio: 0.75,
            frames: 160,
            fewest_frames: 0,
            stretch: 0.0,
            centre: Centre::Scan,
            window_seconds: 0.0,
            region_ratio: 0.0,
        }
    }
}

impl MaskSettings {
    /// The settings of one training step: its number of frames is a function of seed and step alone, and a window keeps
    /// its density of frames.
    pub fn of_step(&self, seed: u64, step: u64) -> Self {
        if self.fewest_frames == 0 || self.fewest_frames >= self.frames {
            return *self;
        }
        let share = uniform(&mut stream("visit length", &[seed, step]));
        let (fewest, most) = (self.fewest_frames as f64, self.frames as f64);
        let frames = (fewest * (most / fewest).powf(share)).round();
        Self { frames: frames as usize, window_seconds: self.window_seconds * frames / most, ..*self }
    }
}

/// In [0, 1).
fn uniform(rng: &mut impl Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Whose mean is subtracted from a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Centre {
    /// All kept frames of the scan.
    #[default]
    Scan,
    /// The visible frames of the visit: all that is known where a model is used.
    Visible,
}

/// The frames of one visit.
#[derive(Clone, Debug, PartialEq)]
pub struct Visit {
    /// Indices into the scan, increasing.
    pub frames: Vec<usize>,
    /// Of each drawn frame, whether the encoder sees it.
    pub context: Vec<bool>,
    /// Where the model's clock starts. A visit to a stretch is a scan of its own, or its first frame would own all the
    /// time before it.
    pub origin_seconds: f64,
    /// What its values are centred on.
    pub centre: Centre,
}

impl Visit {
    /// Draws frames and targets uniformly, without replacement. The scan has at least two frames.
    pub fn draw(settings: &MaskSettings, times_seconds: &[f64], rng: &mut impl Rng) -> Self {
        let mut frames = stretch(settings, times_seconds, rng);
        choose(&mut frames, settings.frames.max(2), rng);
        frames.sort_unstable();
        let count = frames.len();
        let whole = settings.stretch == 0.0 && settings.window_seconds == 0.0;
        let origin_seconds = if whole { 0.0 } else { times_seconds[frames[0]] };
        Self { frames, context: draw_context(settings.ratio, count, rng), origin_seconds, centre: settings.centre }
    }
}

/// Number of targets among `count` frames: rounded half up, at least one, and at least one context frame left.
pub fn target_count(ratio: f64, count: usize) -> usize {
    ((ratio * count as f64 + 0.5).floor() as usize).clamp(1, count - 1)
}

fn draw_context(ratio: f64, count: usize, rng: &mut impl Rng) -> Vec<bool> {
    let mut order: Vec<usize> = (0..count).collect();
    choose(&mut order, target_count(ratio, count), rng);
    let mut context = vec![true; count];
    for target in order {
        context[target] = false;
    }
    context
}

/// The frames of a random stretch of the scan, or all of them.
fn stretch(settings: &MaskSettings, times_seconds: &[f64], rng: &mut impl Rng) -> Vec<usize> {
    let all = || (0..times_seconds.len()).collect();
    if settings.stretch > 0.0 {
        let length = (settings.frames as f64 * settings.stretch).ceil() as usize;
        let Some(slack) = times_seconds.len().checked_sub(length) else { return all() };
        let from = below(rng, slack as u64 + 1) as usize;
        return (from..from + length).collect();
    }
    let (first, last) = (times_seconds[0], times_seconds[times_seconds.len() - 1]);
    let slack = last - first - settings.window_seconds;
    if settings.window_seconds <= 0.0 || slack <= 0.0 {
        return all();
    }
    let from = first + uniform(rng) * slack;
    let inside = |t: f64| t >= from && t <= from + settings.window_seconds;
    let frames: Vec<usize> = (0..times_seconds.len()).filter(|&i| inside(times_seconds[i])).collect();
    // A window shorter than two frames, or one that fell into a gap, has nothing to predict from.
    if frames.len() < 2 { all() } else { frames }
}

/// Keeps `count` items at random, in random order.
fn choose(items: &mut Vec<usize>, count: usize, rng: &mut impl Rng) {
    let count = count.min(items.len());
    for i in 0..count {
        let other = i + below(rng, (items.len() - i) as u64) as usize;
        items.swap(i, other);
    }
    items.truncate(count);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_visit_has_160_frames_and_120_targets_in_order() {
        let times: Vec<f64> = (0..480).map(|i| f64::from(i) * 0.735).collect();
        let visit = Visit::draw(&MaskSettings::default(), &times, &mut stream("t", &[1]));
        assert_eq!(visit.frames.len(), 160);
        assert!(visit.frames.is_sorted_by(|a, b| a < b));
        assert_eq!(visit.context.iter().filter(|c| **c).count(), 40);
    }

    #[test]
    fn a_short_scan_gives_all_and_keeps_a_context_and_a_target() {
        let times = [0.0, 1.0, 2.0];
        for ratio in [0.0, 0.5, 1.0] {
            let settings = MaskSettings { ratio, ..MaskSettings::default() };
            let visit = Visit::draw(&settings, &times, &mut stream("t", &[2]));
            assert_eq!(visit.frames, [0, 1, 2]);
            assert!(visit.context.contains(&true) && visit.context.contains(&false), "{ratio}: {visit:?}");
        }
    }

    #[test]
    fn a_window_keeps_the_frames_together() {
        let times: Vec<f64> = (0..1200).map(|i| f64::from(i) * 0.72).collect();
        let settings = MaskSettings { window_seconds: 230.0, ..MaskSettings::default() };
        let mut starts = Vec::new();
        for sample in 0..200 {
            let visit = Visit::draw(&settings, &times, &mut stream("t", &[sample]));
            assert_eq!(visit.frames.len(), 160);
            let span = times[visit.frames[159]] - times[visit.frames[0]];
            assert!(span <= 230.0);
            starts.push(times[visit.frames[0]]);
        }
        // Starts are uniform over the 633 s that the window can move: mean 316, standard error 13.
        let mean = starts.iter().sum::<f64>() / 200.0;
        assert!((mean - 318.0).abs() < 65.0, "{mean}");
    }

    #[test]
    fn a_stretch_of_one_gives_consecutive_frames_and_steps_differ_in_length() {
        let times: Vec<f64> = (0..1200).map(|i| f64::from(i) * 0.72).collect();
        let settings = MaskSettings { stretch: 1.0, fewest_frames: 20, ..MaskSettings::default() };
        let mut lengths = Vec::new();
        for step in 0..300 {
            let of_step = settings.of_step(7, step);
            assert_eq!(of_step, settings.of_step(7, step));
            let visit = Visit::draw(&of_step, &times, &mut stream("t", &[step]));
            assert_eq!(visit.frames.len(), of_step.frames);
            assert!(visit.frames.windows(2).all(|w| w[1] == w[0] + 1));
            lengths.push(of_step.frames);
        }
        assert!(lengths.iter().all(|n| (20..=160).contains(n)));
        // Half of a scale of ratios from 20 to 160 lies below its geometric mean, 56.6: Binomial(300, 1/2), sd 8.7.
        let short = lengths.iter().filter(|n| **n < 57).count();
        assert!(short.abs_diff(150) < 52, "{short}");
    }

    #[test]
    fn every_frame_is_drawn_and_hidden_equally_often() {
        let times: Vec<f64> = (0..40).map(f64::from).collect();
        let settings = MaskSettings { frames: 20, ..MaskSettings::default() };
        let (mut drawn, mut hidden) = ([0u32; 40], [0u32; 40]);
        for sample in 0..4000 {
            let visit = Visit::draw(&settings, &times, &mut stream("t", &[sample]));
            for (&frame, &context) in visit.frames.iter().zip(&visit.context) {
                drawn[frame] += 1;
                hidden[frame] += u32::from(!context);
            }
        }
        // Binomial(4000, 1/2) and (4000, 3/8): standard deviations 32 and 31; six of them is never.
        assert!(drawn.iter().all(|n| n.abs_diff(2000) < 192), "{drawn:?}");
        assert!(hidden.iter().all(|n| n.abs_diff(1500) < 186), "{hidden:?}");
    }
}

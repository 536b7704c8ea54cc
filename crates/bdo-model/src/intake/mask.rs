//! Which frames of a scan one visit sees, and which of them are hidden from the encoder.

use crate::key::{BDO, BELOW_ONE, NOT_NEGATIVE, SHARE, between};
use crate::{keys, words};
use bdo_data::random::below;
use rand_chacha::rand_core::Rng;
use serde::{Deserialize, Serialize};
use std::ops::Range;

keys! {
    /// How frames are drawn.
    #[derive(Copy)]
    pub struct MaskSettings in "mask", once [fewest_frames, window_seconds] {
        /// Share of the drawn frames (BDO) or tokens (BrainLM) that are hidden and predicted; both papers have 0.75.
        ratio: f64 = 0.75, BELOW_ONE, &["bdo", "brainlm"];
        /// Least share of hidden frames: each training visit draws its share between this and `ratio`. At or above `ratio`,
        /// every visit hides `ratio`, as in the paper.
        ratio_least: f64 = 1.0, SHARE, BDO;
        /// Share of the training visits that are drawn in another way than `stretch` says: from every second or third frame, or
        /// irregularly from all there is. The feature of a scan must not depend on its clock. 0 is the paper.
        varied: f64 = 0.0, SHARE, BDO;
        /// Frames drawn per visit of a scan; a scan with fewer gives all it has. The paper has 160.
        frames: usize = 160, between(2, (1 << 20) - 1), BDO;
        /// Frames are drawn from a random stretch of this many times as many frames: 1 gives consecutive ones, 0 draws from
        /// the whole scan, as the paper does.
        stretch: f64 = 0.0, NOT_NEGATIVE, BDO;
        /// The mean subtracted from each region in training: that of the whole `scan`, as in the paper, or of the `visible`
        /// frames, all that is known where a model is used. Evaluation and inference always centre on visible frames.
        centre: Centre = Centre::Scan, SHARE, BDO;
        /// Share of the regions hidden from the encoder in every visible frame of a training visit, drawn anew per visit:
        /// teaches the model to fill in regions that a scan does not cover. Off, since full coverage is the usual case.
        region_ratio: f64 = 0.0, BELOW_ONE, BDO;
    }
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
words! {
    Centre: "scan", "visible";
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
    /// Mean that is subtracted from its values.
    pub centre: Centre,
}

/// The part of a scan that a visit may see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// All frames.
    #[default]
    Whole,
    /// Frames before the middle.
    FirstHalf,
    /// The other frames.
    SecondHalf,
}

impl Part {
    /// Its frames in a scan of `count`; a scan too short to be halved is seen whole.
    fn frames(self, count: usize) -> Range<usize> {
        match self {
            Self::FirstHalf if count >= 4 => 0..count / 2,
            Self::SecondHalf if count >= 4 => count / 2..count,
            _ => 0..count,
        }
    }
}

impl MaskSettings {
    /// The same with a fixed share of hidden frames and no variation: what evaluation asks for.
    pub fn at_ratio(self, ratio: f64) -> Self {
        Self { ratio, ratio_least: 1.0, varied: 0.0, ..self }
    }
}

impl Visit {
    /// Draws frames and targets uniformly, without replacement. The scan has at least two frames.
    pub fn draw(settings: &MaskSettings, times_seconds: &[f64], rng: &mut impl Rng) -> Self {
        Self::draw_part(settings, times_seconds, Part::Whole, rng)
    }

    /// The same from a part of the scan.
    pub fn draw_part(settings: &MaskSettings, times_seconds: &[f64], part: Part, rng: &mut impl Rng) -> Self {
        let frames = Self::draw_frames(settings, times_seconds.len(), part, rng);
        let count = frames.len();
        let scan_clock = settings.stretch == 0.0 && settings.varied == 0.0;
        let origin_seconds = if scan_clock { 0.0 } else { times_seconds[frames[0]] };
        let ratio = if settings.ratio_least < settings.ratio {
            settings.ratio_least + unit(rng) * (settings.ratio - settings.ratio_least)
        } else {
            settings.ratio
        };
        Self { frames, context: draw_context(ratio, count, rng), origin_seconds, centre: settings.centre }
    }

    /// The frames of a visit to a part of a scan of `count` frames, in order: the first that a visit draws.
    pub(super) fn draw_frames(settings: &MaskSettings, count: usize, part: Part, rng: &mut impl Rng) -> Vec<usize> {
        let part = part.frames(count);
        let varied = settings.varied > 0.0 && unit(rng) < settings.varied;
        let mut frames = if varied { vary(part.len(), rng) } else { stretch(settings, part.len(), rng) };
        choose(&mut frames, settings.frames.max(2), rng);
        frames.iter_mut().for_each(|frame| *frame += part.start);
        frames.sort_unstable();
        frames
    }
}

/// Uniform in [0, 1).
fn unit(rng: &mut impl Rng) -> f64 {
    below(rng, 1 << 32) as f64 / (1u64 << 32) as f64
}

/// Every second or third of `count` frames, or between half and all of them at random.
fn vary(count: usize, rng: &mut impl Rng) -> Vec<usize> {
    let every = match below(rng, 4) {
        0 => 2,
        1 => 3,
        _ => 1,
    };
    if every > 1 && count >= 4 * every {
        return (below(rng, every as u64) as usize..count).step_by(every).collect();
    }
    let mut frames: Vec<usize> = (0..count).collect();
    let least = (count / 2).max(2).min(count);
    choose(&mut frames, least + below(rng, (count - least) as u64 + 1) as usize, rng);
    frames
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

/// The frames of a random stretch of a scan of `count` frames, or all of them.
fn stretch(settings: &MaskSettings, count: usize, rng: &mut impl Rng) -> Vec<usize> {
    // A visit needs a frame to see and one to predict.
    let length = ((settings.frames as f64 * settings.stretch).ceil() as usize).max(2);
    match count.checked_sub(length) {
        Some(slack) if settings.stretch > 0.0 => {
            let from = below(rng, slack as u64 + 1) as usize;
            (from..from + length).collect()
        }
        _ => (0..count).collect(),
    }
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
    use bdo_data::random::stream;

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
    fn a_stretch_keeps_the_frames_together() {
        let times: Vec<f64> = (0..1200).map(|i| f64::from(i) * 0.72).collect();
        for (stretch, span) in [(1.0, 160), (2.0, 320)] {
            let settings = MaskSettings { stretch, ..MaskSettings::default() };
            let mut starts = Vec::new();
            for sample in 0..200 {
                let visit = Visit::draw(&settings, &times, &mut stream("t", &[sample]));
                assert_eq!(visit.frames.len(), 160);
                assert!(visit.frames[159] - visit.frames[0] < span);
                assert!(stretch > 1.0 || visit.frames.windows(2).all(|w| w[1] == w[0] + 1));
                assert_eq!(visit.origin_seconds, times[visit.frames[0]]);
                starts.push(visit.frames[0] as f64);
            }
            // Starts are uniform over the 1040 or 880 frames that the stretch can move: standard errors 21 and 18.
            let (mean, middle) = (starts.iter().sum::<f64>() / 200.0, (1200 - span) as f64 / 2.0);
            assert!((mean - middle).abs() < 105.0, "{mean}");
        }
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

    /// Settings like those of the default preset: half of the visits varied, between a fifth and three fifths hidden.
    fn varied() -> MaskSettings {
        MaskSettings { frames: 40, stretch: 1.0, varied: 0.5, ratio: 0.6, ratio_least: 0.2, ..MaskSettings::default() }
    }

    #[test]
    fn varied_visits_stay_in_their_part_and_hide_a_share_in_range() {
        for count in [4usize, 5, 11, 50, 301] {
            let times: Vec<f64> = (0..count).map(|i| 2.0 * i as f64).collect();
            for sample in 0..200 {
                let draw = |part| Visit::draw_part(&varied(), &times, part, &mut stream("t", &[sample]));
                let visits = [Part::Whole, Part::FirstHalf, Part::SecondHalf].map(draw);
                for visit in &visits {
                    let drawn = visit.frames.len();
                    assert!((2..=40).contains(&drawn) && visit.context.len() == drawn);
                    // Sorted and distinct.
                    assert!(visit.frames.is_sorted_by(|a, b| a < b));
                    assert_eq!(visit.origin_seconds, times[visit.frames[0]]);
                    let hidden = visit.context.iter().filter(|seen| !**seen).count();
                    assert!((target_count(0.2, drawn)..=target_count(0.6, drawn)).contains(&hidden), "{hidden}");
                }
                let [whole, first, second] = visits;
                assert!(whole.frames.iter().all(|frame| *frame < count));
                assert!(first.frames.iter().all(|frame| *frame < count / 2));
                assert!(second.frames.iter().all(|frame| (count / 2..count).contains(frame)));
            }
        }
        // Too short to be halved: seen whole.
        let times = [0.0, 1.0, 2.0];
        assert_eq!(Visit::draw_part(&varied(), &times, Part::SecondHalf, &mut stream("t", &[1])).frames[0], 0);
    }

    #[test]
    fn visits_vary_as_often_as_asked_and_hide_all_shares_alike() {
        let times: Vec<f64> = (0..80).map(f64::from).collect();
        let (mut consecutive, mut every, mut hidden) = (0u32, [0u32; 2], 0.0);
        for sample in 0..800 {
            let visit = Visit::draw(&varied(), &times, &mut stream("t", &[sample]));
            let gaps: Vec<usize> = visit.frames.windows(2).map(|w| w[1] - w[0]).collect();
            consecutive += u32::from(gaps.iter().all(|gap| *gap == 1));
            for (step, count) in [2, 3].into_iter().zip(&mut every) {
                *count += u32::from(gaps.iter().all(|gap| *gap == step));
            }
            hidden += visit.context.iter().filter(|seen| !**seen).count() as f64 / visit.frames.len() as f64;
        }
        // Binomial(800, 1/2) and (800, 1/8): standard deviations 14 and 9.
        assert!(consecutive.abs_diff(400) < 84, "{consecutive}");
        assert!(every.iter().all(|count| count.abs_diff(100) < 56), "{every:?}");
        // Uniform between 0.2 and 0.6: the mean of 800 has a standard error of 0.004.
        assert!((hidden / 800.0 - 0.4).abs() < 0.025, "{hidden}");
    }

    /// Runs of earlier versions are drawn again as they were: numbers of the version before visits could vary.
    #[test]
    fn without_variation_visits_are_those_of_earlier_versions() {
        let times: Vec<f64> = (0..30).map(f64::from).collect();
        let drawn = |stretch: f64| {
            let settings = MaskSettings { frames: 8, stretch, ..MaskSettings::default() };
            let visit = Visit::draw(&settings, &times, &mut stream("t", &[3]));
            let seen = visit.frames.iter().zip(&visit.context).filter(|(_, seen)| **seen).map(|(frame, _)| *frame);
            (visit.origin_seconds, seen.collect::<Vec<_>>(), visit.frames)
        };
        assert_eq!(drawn(0.0), (0.0, vec![26, 29], vec![0, 6, 8, 9, 13, 16, 26, 29]));
        assert_eq!(drawn(1.0), (13.0, vec![16, 19], vec![13, 14, 15, 16, 17, 18, 19, 20]));
        assert_eq!(drawn(2.0), (0.0, vec![4, 13], vec![0, 1, 2, 4, 8, 12, 13, 14]));
    }
}

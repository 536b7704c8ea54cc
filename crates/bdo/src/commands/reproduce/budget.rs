//! How the minutes of a reproduction are shared out, and what has to be left out for that.

/// A shorter training than this shows nothing: something is left out instead.
const LEAST_MINUTES: f64 = 0.05;
/// Part of the time that is left for embedding, statistics and pages.
const RESERVE: f64 = 0.15;

/// The work of a table: how many trainings of which kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TableWork {
    pub(super) labels: usize,
    pub(super) seeds: usize,
    pub(super) sizes: usize,
    /// Divisions of people per seed: one for all labels, or one for each.
    pub(super) divisions: usize,
    pub(super) networks: usize,
    /// Models of masked tokens, each pre-trained and tuned.
    pub(super) tokens: usize,
    pub(super) tuned: bool,
}

/// Minutes of one training of each kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TableMinutes {
    pub(super) pretraining: f64,
    pub(super) tuning: f64,
    pub(super) baseline: f64,
}

impl TableWork {
    /// Three parts for pre-training, two for fine-tuning, four for the baselines, by what there is of them.
    pub(super) fn minutes(self, all: f64) -> TableMinutes {
        let pretrainings = self.seeds * self.divisions * self.sizes;
        let fits = self.labels * self.seeds;
        let baselines = self.networks * fits + self.tokens * (self.seeds * self.divisions + fits);
        let part = |part: f64, count: usize| (if count > 0 { part } else { 0.0 }, count);
        let tunings = if self.tuned { fits } else { 0 };
        let parts = [part(3.0, pretrainings), part(2.0, tunings), part(4.0, baselines)];
        let weight: f64 = parts.iter().map(|(weight, _)| weight).sum();
        let each = |(part, count): (f64, usize)| (1.0 - RESERVE) * all * part / weight / count.max(1) as f64;
        TableMinutes { pretraining: each(parts[0]), tuning: each(parts[1]), baseline: each(parts[2]) }
    }

    /// What fits: token models go first, then sizes beyond the first, then networks, then repetitions beyond the first.
    pub(super) fn fitted(mut self, all: f64) -> (Self, Vec<String>) {
        let asked = self;
        loop {
            let minutes = self.minutes(all);
            let short = (self.networks + self.tokens > 0 && minutes.baseline < LEAST_MINUTES)
                || minutes.pretraining < LEAST_MINUTES;
            match self {
                _ if !short => break,
                Self { tokens: 1.., .. } => self.tokens = 0,
                Self { sizes: 2.., .. } => self.sizes = 1,
                Self { networks: 1.., .. } => self.networks = 0,
                Self { seeds: 2.., .. } => self.seeds = 1,
                _ => break,
            }
        }
        let mut cuts = vec![];
        for (before, now, what) in [
            (asked.tokens, self.tokens, "BrainLM and Brain-JEPA are left out"),
            (asked.networks, self.networks, "BrainNetCNN, BrainGNN and BrainNetTF are left out"),
            (asked.sizes, self.sizes, "sizes beyond the first are left out"),
            (asked.seeds, self.seeds, "seeds beyond the first are left out"),
        ] {
            if now < before {
                cuts.push(format!("{what}: {all} minutes do not last for more"));
            }
        }
        (self, cuts)
    }
}

/// Minutes of each of so many trainings, where all are alike.
pub(super) fn alike(all: f64, trainings: f64) -> f64 {
    // Rounded, so that the same request asks for the same settings whatever the arithmetic.
    ((1.0 - RESERVE) * all / trainings * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_trainings_fit_into_the_minutes_and_little_time_leaves_out_much() {
        let work = TableWork { labels: 2, seeds: 3, sizes: 1, divisions: 1, networks: 3, tokens: 2, tuned: true };
        let minutes = work.minutes(100.0);
        let all = 3.0 * minutes.pretraining + 6.0 * minutes.tuning + (18.0 + 18.0) * minutes.baseline;
        assert!((all - 85.0).abs() < 1e-9, "{all}");
        assert_eq!(work.fitted(100.0), (work, vec![]));
        let (left, cuts) = work.fitted(0.1);
        assert_eq!((left.tokens, left.networks, left.seeds), (0, 0, 1));
        assert_eq!(cuts.len(), 3);
        let (left, cuts) = work.fitted(3.0);
        assert_eq!((left.tokens, left.networks, left.seeds), (0, 3, 3), "{cuts:?}");
    }
}

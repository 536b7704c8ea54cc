//! What Brain-JEPA sees and what it predicts: blocks of regions and windows on the grid of tokens.

use crate::token::grid::Grid;
use bdo_data::random::{below, shuffle};
use rand_chacha::rand_core::Rng;

/// Context and targets of the scans of a batch, as tokens; every scan has as many as the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JepaMasks {
    /// Encoded.
    pub context: Vec<Vec<usize>>,
    /// Predicted: other regions, then later windows, then earlier ones; a token may occur twice.
    pub target: Vec<Vec<usize>>,
}

/// Sizes of blocks, drawn once a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSizes {
    /// Regions of the observation.
    pub observed_regions: usize,
    /// Windows of the observation.
    pub observed_windows: usize,
    /// Regions that are predicted from other regions.
    pub crossed_regions: usize,
    /// Windows in which they are.
    pub crossed_windows: usize,
}

/// Fewest windows for which the blocks leave a context.
pub const LEAST_WINDOWS: usize = 4;

/// One scan before lists are cut to the length of the shortest.
struct Drawn {
    context: Vec<usize>,
    target: Vec<usize>,
}

impl BlockSizes {
    /// The ranges of the original.
    pub fn draw(grid: Grid, rng: &mut impl Rng) -> Self {
        let Grid { regions, windows } = grid;
        let observed_windows = share(windows, between(0.84, 1.0, rng)).max(1);
        Self {
            observed_regions: share(regions, between(0.84, 1.0, rng)).max(1),
            observed_windows,
            crossed_regions: share(regions, between(0.45, 0.6, rng)),
            crossed_windows: share(windows, between(0.2, 0.6, rng)).clamp(1, observed_windows),
        }
    }
}

impl JepaMasks {
    /// Masks of a batch. The grid has at least [`LEAST_WINDOWS`] windows and ten regions.
    pub fn draw(grid: Grid, samples: usize, rng: &mut impl Rng) -> Self {
        let sizes = BlockSizes::draw(grid, rng);
        let drawn: Vec<Drawn> = (0..samples).map(|_| Drawn::of(grid, sizes, rng)).collect();
        let shortest = |pick: fn(&Drawn) -> &Vec<usize>| drawn.iter().map(|d| pick(d).len()).min().unwrap_or(0);
        let (context, target) = (shortest(|d| &d.context), shortest(|d| &d.target));
        // The heads of the lists are kept, as in the original.
        Self {
            context: drawn.iter().map(|d| d.context[..context].to_vec()).collect(),
            target: drawn.iter().map(|d| d.target[..target].to_vec()).collect(),
        }
    }
}

impl Drawn {
    /// A scan of a small grid can come out without a context or a target; then it is drawn again.
    fn of(grid: Grid, sizes: BlockSizes, rng: &mut impl Rng) -> Self {
        loop {
            let drawn = Self::once(grid, sizes, rng);
            if !drawn.context.is_empty() && !drawn.target.is_empty() {
                return drawn;
            }
        }
    }

    fn once(grid: Grid, sizes: BlockSizes, rng: &mut impl Rng) -> Self {
        let Grid { regions, windows } = grid;
        let observed = subset(&(0..regions).collect::<Vec<_>>(), sizes.observed_regions, rng);
        let start = start(windows - sizes.observed_windows, rng);
        let crossed = subset(&(0..regions).collect::<Vec<_>>(), sizes.crossed_regions, rng);
        let crossed_start = start + self::start(sizes.observed_windows - sizes.crossed_windows, rng);
        let mut target = tokens(grid, &crossed, &range(crossed_start, sizes.crossed_windows));

        let is_crossed = membership(&crossed, regions);
        let inside: Vec<usize> = observed.iter().copied().filter(|r| !is_crossed[*r]).collect();
        let is_inside = membership(&inside, regions);
        let outside: Vec<usize> = (0..regions).filter(|r| !is_inside[*r]).collect();
        // Three of ten windows at either end.
        let edge = (3 * windows / WINDOWS_OF_ORIGINAL).clamp(1, windows / 2);
        let mut removed = vec![false; windows];
        for ends in [range(windows - edge, edge), range(0, edge)] {
            let u = between(0.15, 0.3, rng);
            let mut chosen = subset(&inside, share(inside.len(), u), rng);
            chosen.extend(subset(&outside, share(outside.len(), u), rng));
            let count = share(windows, between(0.0, 0.4, rng)).min(edge);
            let ends = subset(&ends, count, rng);
            ends.iter().for_each(|w| removed[*w] = true);
            target.extend(tokens(grid, &chosen, &ends));
        }
        let kept: Vec<usize> = range(start, sizes.observed_windows).into_iter().filter(|w| !removed[*w]).collect();
        Self { context: tokens(grid, &inside, &kept), target }
    }
}

const WINDOWS_OF_ORIGINAL: usize = crate::token::grid::WINDOWS;

fn tokens(grid: Grid, regions: &[usize], windows: &[usize]) -> Vec<usize> {
    regions.iter().flat_map(|r| windows.iter().map(move |w| r * grid.windows + w)).collect()
}

fn range(start: usize, length: usize) -> Vec<usize> {
    (start..start + length).collect()
}

fn membership(members: &[usize], count: usize) -> Vec<bool> {
    let mut flags = vec![false; count];
    members.iter().for_each(|m| flags[*m] = true);
    flags
}

/// The whole part of a share.
fn share(of: usize, u: f64) -> usize {
    (of as f64 * u) as usize
}

/// Uniform below `room`, the last place left out as in the original; 0 where there is no choice.
fn start(room: usize, rng: &mut impl Rng) -> usize {
    if room == 0 { 0 } else { below(rng, room as u64) as usize }
}

fn between(low: f64, high: f64, rng: &mut impl Rng) -> f64 {
    low + (high - low) * ((rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64)
}

/// `count` of the items without repetition, in ascending order.
fn subset(items: &[usize], count: usize, rng: &mut impl Rng) -> Vec<usize> {
    let mut order = items.to_vec();
    shuffle(&mut order, rng);
    order.truncate(count);
    order.sort_unstable();
    order
}

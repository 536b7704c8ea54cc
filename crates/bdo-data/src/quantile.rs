//! Exact quantiles of data too large to sort: three passes that count, instead of one that keeps.
//!
//! A 32-bit float maps to an integer of the same order. The first pass counts the highest 11 bits of every value, which tells the
//! bin each wanted rank falls into; the second and third count the next 11 and the last 10 bits within that bin. Counts add up in
//! any order, so the result does not depend on threads, and it is the value a full sort would find.

/// The value below which a share `q` of the sorted values lies, linear between neighbours (numpy's default); none without values.
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let at = q.clamp(0.0, 1.0) * sorted.len().checked_sub(1)? as f64;
    let (below, part) = (at.floor() as usize, at.fract());
    let above = (below + 1).min(sorted.len() - 1);
    Some(sorted[below] + (sorted[above] - sorted[below]) * part)
}

/// `None` of nothing.
pub(crate) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.fold((0, 0.0), |(count, sum), x| (count + 1, sum + x));
    (count > 0).then(|| sum / f64::from(count))
}

/// Bits told apart by each pass.
const PASS_BITS: [u32; 3] = [11, 11, 10];

/// Quantiles of several columns, found in [`PASSES`] passes over the same values.
pub const PASSES: usize = PASS_BITS.len();

/// The search for the order statistics of every column.
#[derive(Debug, Clone)]
pub struct QuantileSearch {
    quantiles: Vec<f64>,
    columns: usize,
    pass: usize,
    /// Per column and rank: the leading bits found so far.
    prefixes: Vec<u32>,
    /// Per column and rank: how many values with that prefix come before the rank.
    ranks: Vec<u64>,
    counts_seen: Vec<u64>,
}

/// What one pass has counted; parts counted apart are added.
#[derive(Debug, Clone)]
pub struct Counts(Vec<u64>);

impl Counts {
    #[must_use]
    pub fn plus(mut self, other: &Self) -> Self {
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            *a += b;
        }
        self
    }
}

impl QuantileSearch {
    pub fn new(columns: usize, quantiles: &[f64]) -> Self {
        let ranks = columns * quantiles.len() * 2;
        Self {
            quantiles: quantiles.to_vec(),
            columns,
            pass: 0,
            prefixes: vec![0; ranks],
            ranks: vec![0; ranks],
            counts_seen: vec![],
        }
    }

    /// Ranks looked for in each column: the two neighbours of every quantile. The first pass does not need to tell them apart.
    fn searches(&self) -> usize {
        if self.pass == 0 { 1 } else { self.quantiles.len() * 2 }
    }

    pub fn counts(&self) -> Counts {
        Counts(vec![0; (self.columns * self.searches()) << PASS_BITS[self.pass]])
    }

    #[inline]
    pub fn count(&self, counts: &mut Counts, column: usize, value: f32) {
        let bits = PASS_BITS[self.pass];
        let below: u32 = PASS_BITS[self.pass + 1..].iter().sum();
        let key = ordered(value);
        let bin = (key >> below) as usize & ((1 << bits) - 1);
        let searches = self.searches();
        for search in 0..searches {
            let matches = self.pass == 0 || key >> (below + bits) == self.prefixes[column * searches + search];
            counts.0[((column * searches + search) << bits) + bin] += u64::from(matches);
        }
    }

    /// Ends a pass: every wanted rank moves into its bin.
    pub fn end_pass(&mut self, counts: &Counts) {
        let bits = PASS_BITS[self.pass];
        let bins = 1usize << bits;
        let (searches, wanted) = (self.searches(), self.quantiles.len() * 2);
        if self.pass == 0 {
            self.counts_seen = counts.0.chunks_exact(bins).map(|c| c.iter().sum()).collect();
            for column in 0..self.columns {
                let last = self.counts_seen[column].saturating_sub(1) as f64;
                for (i, q) in self.quantiles.iter().enumerate() {
                    let low = (last * q).floor();
                    self.ranks[column * wanted + 2 * i] = low as u64;
                    self.ranks[column * wanted + 2 * i + 1] = (low + 1.0).min(last) as u64;
                }
            }
        }
        for column in 0..self.columns {
            for rank in 0..wanted {
                let at = column * wanted + rank;
                let histogram = column * searches + if self.pass == 0 { 0 } else { rank };
                let mut bin = 0;
                for (b, n) in counts.0[histogram << bits..][..bins].iter().enumerate() {
                    bin = b;
                    if self.ranks[at] < *n {
                        break;
                    }
                    self.ranks[at] -= n;
                }
                self.prefixes[at] = self.prefixes[at] << bits | bin as u32;
            }
        }
        self.pass += 1;
    }

    /// The quantiles of a column after the last pass, interpolated linearly as numpy does; `None` for a column without values.
    pub fn result(&self, column: usize) -> Option<Vec<f64>> {
        assert_eq!(self.pass, PASSES, "the search needs all its passes");
        let n = self.counts_seen[column];
        let wanted = self.quantiles.len() * 2;
        (n > 0).then(|| {
            let value = |rank: usize| f64::from(unordered(self.prefixes[column * wanted + rank]));
            let at = |(i, q): (usize, &f64)| {
                let fraction = ((n - 1) as f64 * q).fract();
                let (low, high) = (value(2 * i), value(2 * i + 1));
                low + (high - low) * fraction
            };
            self.quantiles.iter().enumerate().map(at).collect()
        })
    }
}

/// An integer that orders as the float does.
fn ordered(value: f32) -> u32 {
    let bits = value.to_bits();
    if bits >> 31 == 1 { !bits } else { bits | 1 << 31 }
}

fn unordered(key: u32) -> f32 {
    f32::from_bits(if key >> 31 == 1 { key & !(1 << 31) } else { !key })
}

/// The slow twin: sorts.
#[cfg(test)]
pub(crate) fn by_sorting(values: &mut [f32], quantiles: &[f64]) -> Option<Vec<f64>> {
    values.sort_by(f32::total_cmp);
    let last = values.len().checked_sub(1)?;
    let at = |q: &f64| {
        let position = last as f64 * q;
        let (low, high) = (position.floor() as usize, (position.floor() as usize + 1).min(last));
        f64::from(values[low]) + (f64::from(values[high]) - f64::from(values[low])) * position.fract()
    };
    Some(quantiles.iter().map(at).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn search(columns: &[Vec<f32>], quantiles: &[f64]) -> Vec<Option<Vec<f64>>> {
        let mut search = QuantileSearch::new(columns.len(), quantiles);
        for _ in 0..PASSES {
            let (mut a, mut b) = (search.counts(), search.counts());
            for (c, values) in columns.iter().enumerate() {
                for (i, v) in values.iter().enumerate() {
                    search.count(if i % 2 == 0 { &mut a } else { &mut b }, c, *v);
                }
            }
            search.end_pass(&a.plus(&b));
        }
        (0..columns.len()).map(|c| search.result(c)).collect()
    }

    proptest! {
        #[test]
        fn finds_what_sorting_finds(columns in proptest::collection::vec(proptest::collection::vec(
            prop_oneof![Just(0.0f32), Just(-1.5), -1e3f32..1e3, any::<f32>().prop_filter("finite", |x| x.is_finite())], 0..60), 1..4))
        {
            let quantiles = [0.0, 0.25, 0.5, 0.75, 1.0];
            for (found, values) in search(&columns, &quantiles).into_iter().zip(&columns) {
                prop_assert_eq!(found, by_sorting(&mut values.clone(), &quantiles));
            }
        }
    }
}

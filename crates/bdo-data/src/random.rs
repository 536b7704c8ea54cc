//! Random numbers that can be repeated: every use has its own `ChaCha` stream, keyed by its purpose and position.
//!
//! A stream depends on nothing but its key, so results do not change with the number of threads, with what was drawn before, or
//! when a run is taken up again in the middle.

use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// The stream of one purpose at one position (seed, epoch, sample, ...).
pub fn stream(purpose: &str, position: &[u64]) -> ChaCha12Rng {
    let mut key = blake3::Hasher::new_derive_key("bdo 2026 random stream");
    key.update(purpose.as_bytes()).update(b"\0");
    for number in position {
        key.update(&number.to_le_bytes());
    }
    ChaCha12Rng::from_seed(*key.finalize().as_bytes())
}

/// A uniform number below `bound`, without the bias of a plain remainder.
pub fn below(rng: &mut impl Rng, bound: u64) -> u64 {
    assert!(bound > 0, "a number below zero was asked for");
    let usable = u64::MAX - u64::MAX % bound;
    loop {
        let x = rng.next_u64();
        if x < usable {
            return x % bound;
        }
    }
}

/// Puts a list into random order (Fisher-Yates).
pub fn shuffle<T>(items: &mut [T], rng: &mut impl Rng) {
    for last in (1..items.len()).rev() {
        items.swap(last, below(rng, last as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_their_keys() {
        let draw = |purpose, position: &[u64]| stream(purpose, position).next_u64();
        assert_eq!(draw("a", &[1, 2]), draw("a", &[1, 2]));
        assert_ne!(draw("a", &[1, 2]), draw("a", &[2, 1]));
        assert_ne!(draw("a", &[1, 2]), draw("b", &[1, 2]));
    }

    #[test]
    fn shuffling_is_uniform() {
        let mut counts = [0u32; 6];
        for seed in 0..6000 {
            let mut items = [0, 1, 2];
            shuffle(&mut items, &mut stream("test", &[seed]));
            counts[items[0] * 2 + usize::from(items[1] > items[2])] += 1;
        }
        // Each of the six orders is binomial(6000, 1/6): mean 1000, standard deviation 29; 6 of them is never.
        assert!(counts.iter().all(|c| (820..1180).contains(c)), "{counts:?}");
    }
}

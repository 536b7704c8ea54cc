//! Fuzzing without a fuzzer: the corpus is replayed, then inputs derived from it are tried, the same ones every time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// No input of a few KiB may take longer; real ones take microseconds.
const LONGEST: Duration = Duration::from_secs(20);
/// Inputs do not grow beyond this.
const MOST_BYTES: usize = 64 << 10;
/// Numbers and words that sit at the edges of what readers accept.
const EDGES: [&[u8]; 16] = [
    b"\0",
    b"\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\x80\0\0\0",
    b"nan",
    b"n/a",
    b"-1",
    b"1e309",
    b"18446744073709551616",
    b"\t",
    b",",
    b"\n",
    b"{}",
    b"null",
    b"sub-",
];

/// Replays the corpus of `name` and `seeds`, then runs so many derived inputs. Panics, and inputs that take too long, are kept as
/// files and fail.
pub fn run(name: &str, target: fn(&[u8]), mut seeds: Vec<Vec<u8>>, executions: u64) {
    seeds.extend(corpus(name));
    assert!(!seeds.is_empty(), "{name}: expected a corpus, found no file");
    for input in &seeds {
        execute(name, target, input);
    }
    let mut dice = Dice(name.bytes().fold(1, |seed: u64, b| seed.wrapping_mul(31).wrapping_add(u64::from(b))));
    let started = Instant::now();
    for _ in 0..executions {
        let input = derived(&seeds, &mut dice);
        execute(name, target, &input);
    }
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "COUNTED: fuzz {name}: {} inputs replayed, {executions} derived ones run in {seconds:.0} s, no crash",
        seeds.len()
    );
}

/// How many inputs are derived: some in the check, a tenth of ten million over the eight targets in the torture.
pub fn executions() -> u64 {
    let given = std::env::var("BDO_FUZZ_EXECUTIONS").ok().and_then(|n| n.parse().ok());
    let torture = std::env::var("BDO_TORTURE").as_deref() == Ok("full");
    given.unwrap_or(if torture { 125_000 } else { 1_500 })
}

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = files.map(|f| f.path()).collect();
    paths.sort();
    paths.iter().filter_map(|p| std::fs::read(p).ok()).collect()
}

fn execute(name: &str, target: fn(&[u8]), input: &[u8]) {
    let started = Instant::now();
    let ended = catch_unwind(AssertUnwindSafe(|| target(input)));
    let took = started.elapsed();
    if ended.is_err() || took > LONGEST {
        let kept = std::env::temp_dir().join(format!("bdo-fuzz-{name}-{}", input.len()));
        let _ = std::fs::write(&kept, input);
        panic!(
            "{name}: expected an answer within {LONGEST:?}, found a panic or {took:?}; the input is {}",
            kept.display()
        );
    }
}

/// A seed with up to eight changes.
fn derived(seeds: &[Vec<u8>], dice: &mut Dice) -> Vec<u8> {
    let mut input = seeds[dice.below(seeds.len())].clone();
    for _ in 0..=dice.below(8) {
        let (at, length) = (dice.below(input.len() + 1), 1 + dice.below(16));
        let end = (at + length).min(input.len());
        match dice.below(8) {
            0 => input[at..end].iter_mut().take(1).for_each(|b| *b ^= 1 << (length % 8)),
            1 => input[at..end].iter_mut().for_each(|b| *b = dice.next() as u8),
            2 => drop(input.drain(at..end)),
            3 => input.truncate(at),
            4 => drop(input.splice(at..end, EDGES[dice.below(EDGES.len())].iter().copied())),
            5 => drop(input.splice(at..at, EDGES[dice.below(EDGES.len())].iter().copied())),
            6 => {
                let again = input[at..end].to_vec();
                let place = dice.below(input.len() + 1);
                input.splice(place..place, again);
            }
            _ => {
                let other = &seeds[dice.below(seeds.len())];
                let from = dice.below(other.len() + 1);
                input.truncate(at);
                input.extend(&other[from..]);
            }
        }
        input.truncate(MOST_BYTES);
    }
    input
}

/// Random numbers that are the same every time (splitmix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

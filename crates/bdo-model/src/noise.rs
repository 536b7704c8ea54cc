//! Standard normal numbers from a repeatable stream, fast enough that noise is a small part of a training step.
//!
//! The ziggurat method: 256 layers of equal area under the bell curve. One 32-bit draw gives the layer (8 bits), the
//! sign (1 bit) and the position in the layer (23 bits), which do not overlap; 99 % of draws need nothing else.

use rand_chacha::rand_core::Rng;
use std::sync::OnceLock;

const LAYERS: usize = 256;
/// Where the tail begins, for 256 layers.
const TAIL: f64 = 3.654_152_885_361_009;
/// Area of each layer.
const AREA: f64 = 0.004_928_673_233_99;

/// Layers, widest first.
struct Ziggurat {
    /// Density at the right edges.
    height: [f64; LAYERS + 1],
    /// Edge times 2^-23: turns the position bits into a value.
    unit: [f32; LAYERS],
    /// Values below this lie under the curve whatever their height.
    inner: [f32; LAYERS],
}

/// Fills a slice with standard normal numbers.
pub fn fill_normal(rng: &mut impl Rng, out: &mut [f32]) {
    let ziggurat = tables();
    for value in out {
        *value = draw(ziggurat, rng);
    }
}

fn draw(ziggurat: &Ziggurat, rng: &mut impl Rng) -> f32 {
    loop {
        let bits = rng.next_u32();
        let layer = (bits & 255) as usize;
        let sign = if bits & 256 == 0 { 1.0 } else { -1.0 };
        let x = (bits >> 9) as f32 * ziggurat.unit[layer];
        if x < ziggurat.inner[layer] {
            return sign * x;
        }
        if let Some(x) = draw_edge(ziggurat, rng, layer, f64::from(x)) {
            return sign * x as f32;
        }
    }
}

/// The rare rest of a layer: the tail beyond the widest one, or the wedge the curve cuts.
#[cold]
fn draw_edge(ziggurat: &Ziggurat, rng: &mut impl Rng, layer: usize, x: f64) -> Option<f64> {
    if layer == 0 {
        loop {
            let beyond = -uniform(rng).ln() / TAIL;
            if -2.0 * uniform(rng).ln() > beyond * beyond {
                return Some(TAIL + beyond);
            }
        }
    }
    let (low, high) = (ziggurat.height[layer], ziggurat.height[layer + 1]);
    (low + uniform(rng) * (high - low) < density(x)).then_some(x)
}

/// Uniform in (0, 1], so that its logarithm is finite.
fn uniform(rng: &mut impl Rng) -> f64 {
    ((rng.next_u64() >> 11) + 1) as f64 * (1.0 / (1u64 << 53) as f64)
}

fn density(x: f64) -> f64 {
    (-0.5 * x * x).exp()
}

fn tables() -> &'static Ziggurat {
    static TABLES: OnceLock<Ziggurat> = OnceLock::new();
    TABLES.get_or_init(|| {
        let mut edge = [0.0; LAYERS + 1];
        edge[0] = AREA / density(TAIL);
        edge[1] = TAIL;
        for i in 2..LAYERS {
            edge[i] = (-2.0 * (density(edge[i - 1]) + AREA / edge[i - 1]).ln()).sqrt();
        }
        let mut height = edge.map(density);
        height[LAYERS] = 1.0;
        Ziggurat {
            height,
            unit: std::array::from_fn(|i| (edge[i] / f64::from(1u32 << 23)) as f32),
            inner: std::array::from_fn(|i| edge[i + 1] as f32),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bdo_data::random::stream;

    #[test]
    fn layers_close_at_the_top() {
        let z = tables();
        // The recursion must end so that what is left under the peak is one more layer. The edge is kept as f32.
        let edge = f64::from(z.inner[LAYERS - 2]);
        let top = edge * (1.0 - z.height[LAYERS - 1]);
        assert!((top - AREA).abs() < 1e-6 * AREA.max(edge * 1e-1), "{top}");
    }

    #[test]
    fn moments_and_tails_are_those_of_the_normal() {
        let n = 2_000_000;
        let mut x = vec![0.0f32; n];
        fill_normal(&mut stream("test", &[1]), &mut x);
        let moment = |power: i32| x.iter().map(|&v| f64::from(v).powi(power)).sum::<f64>() / n as f64;
        // Standard errors sqrt(1, 2, 15, 96 / n); 5 of them is never.
        let bound = |variance: f64| 5.0 * (variance / n as f64).sqrt();
        assert!(moment(1).abs() < bound(1.0), "{}", moment(1));
        assert!((moment(2) - 1.0).abs() < bound(2.0), "{}", moment(2));
        assert!(moment(3).abs() < bound(15.0), "{}", moment(3));
        assert!((moment(4) - 3.0).abs() < bound(96.0), "{}", moment(4));
        for (edge, share) in [(0.5, 0.617_075_077_451_974), (2.0, 0.045_500_263_896_358), (3.7, 0.000_215_599_8)] {
            let found = x.iter().filter(|v| v.abs() > edge).count() as f64 / n as f64;
            assert!((found - share).abs() < bound(share * (1.0 - share)), "beyond {edge}: {found}, expected {share}");
        }
    }
}

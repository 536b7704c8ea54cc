//! Parameter counts of the specification, section 7, at 450 regions.

use bdo_baselines::braingnn::{BrainGnn, BrainGnnConfig};
use bdo_baselines::brainnetcnn::{BrainNetCnn, BrainNetCnnConfig};
use bdo_baselines::brainnettf::{BrainNetTf, BrainNetTfConfig};
use bdo_eval::supervised::network::Network;
use bdo_model::parameters::trainable_count;

#[test]
fn brainnetcnn() {
    let count =
        |outputs| trainable_count(&BrainNetCnn::table(&BrainNetCnnConfig { outputs, ..BrainNetCnnConfig::new(450) }));
    assert_eq!((count(2), count(1)), (2_053_277, 2_053_246));
}

#[test]
fn braingnn() {
    let count = |outputs| trainable_count(&BrainGnn::table(&BrainGnnConfig { outputs, ..BrainGnnConfig::new(450) }));
    assert_eq!((count(2), count(1)), (169_282, 168_769));
}

#[test]
fn brainnettf() {
    let table = |outputs| BrainNetTf::table(&BrainNetTfConfig { outputs, ..BrainNetTfConfig::new(450) });
    assert_eq!((trainable_count(&table(2)), trainable_count(&table(1))), (16_853_890, 16_853_857));
    let frozen: usize = table(1).iter().filter(|r| !r.trainable).map(|r| r.shape.iter().product::<usize>()).sum();
    assert_eq!(frozen, 45_000);
    assert_eq!(BrainNetTfConfig::new(450).heads, 5);
}

#[test]
fn centres_are_orthonormal() {
    for regions in [450, 68] {
        let config = BrainNetTfConfig { ffn: 8, ..BrainNetTfConfig::new(regions) };
        // Only the centres are looked at; the rest of a table of this size takes long to draw.
        let table: Vec<_> =
            BrainNetTf::table(&config).into_iter().filter(|row| row.name == "readout.centres").collect();
        let mut centres = bdo_model::init::draw_parameters(&table, 3).0.remove("readout.centres").unwrap();
        bdo_baselines::brainnettf::orthonormal_centres(&mut centres.values, regions, true);
        let rows: Vec<&[f32]> = centres.values.chunks_exact(regions).collect();
        assert_eq!(rows.len(), regions.min(100));
        for (i, a) in rows.iter().enumerate() {
            for (j, b) in rows.iter().enumerate() {
                let dot: f64 = a.iter().zip(*b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum();
                assert!((dot - f64::from(u8::from(i == j))).abs() < 1e-6, "{i} {j}: {dot}");
            }
        }
    }
}

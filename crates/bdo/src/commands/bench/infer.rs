//! One scan reconstructed, beside embedding it: what the posterior costs on top of the feature.

use std::path::PathBuf;
use std::time::Instant;

use bdo_data::scaler::ScaledScan;
use bdo_model::control::control_of;
use bdo_model::frozen::FrozenModel;
use bdo_model::intake::Windows;
use bdo_model::model::Bdo;
use bdo_model::posterior::engine::Engine;
use bdo_model::posterior::rows::{RowKind, Rows};
use bdo_model::posterior::spread::{Uncertainty, decoded_variance};
use bdo_model::weights::{PreprocessorConfig, TrainingPeople};
use serde_json::json;

use super::{Workload, rounded, workload};
use crate::answer::Answer;
use crate::args::Choice;
use crate::cli::Common;

/// States drawn.
const DRAWS: usize = 32;

pub(super) fn run(args: &Workload, common: &Common) -> anyhow::Result<Answer> {
    let seed = common.seed;
    let config = workload::config(args);
    let device = common.place()?;
    let (kernels, _) = workload::kernels(args, &device);
    let regions = args.regions;
    let frozen = FrozenModel {
        readout: None,
        model: Bdo::init(&config, seed, kernels, &device)?,
        contract: PreprocessorConfig {
            scaling: bdo_data::scaler::Scaling::Pooled,
            roi_names: (0..regions).map(|r| r.to_string()).collect(),
            atlas_name: String::new(),
            atlas_hash: String::new(),
            dropped_volumes: 0,
            time_scale: config.time_scale,
            medians: vec![0.0; regions],
            iqrs: vec![1.0; regions],
            scan_count: 0,
            scan_list_hash: String::new(),
            trained_scans: None,
        },
        people: TrainingPeople::default(),
        notes: None,
        // As models of the default preset are used.
        windows: Windows { longest_whole: 160, frames: 160, own_clock: true },
        blake3: String::new(),
        folder: PathBuf::new(),
    };
    let times_seconds: Vec<f64> = (0..args.frames).map(|i| i as f64 * 0.735).collect();
    let values = workload::noise("bench-infer", &[seed], args.frames * regions);
    let scan =
        ScaledScan { times_seconds: times_seconds.clone(), values: values.clone(), region_valid: vec![true; regions] };
    let rows =
        Rows { times_seconds, kinds: vec![RowKind::Visible; args.frames], values, region_valid: vec![true; regions] };
    let engine = Engine::new(&frozen);
    let reconstruct = |how: Option<Uncertainty>| {
        engine.infer(&rows, |piece| -> anyhow::Result<()> {
            let spread = how.map(|how| decoded_variance(&engine, &piece, how, &[seed]));
            std::hint::black_box((piece.decoded, spread));
            Ok(())
        })
    };
    let mut laps = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];
    // In turn, so that a busy moment of the machine falls on all of them; the first round warms up.
    for round in 0..=args.steps {
        for (kind, laps) in laps.iter_mut().enumerate() {
            let started = Instant::now();
            match kind {
                0 => drop(std::hint::black_box(control_of(&frozen, &scan)?)),
                1 => reconstruct(None)?,
                2 => reconstruct(Some(Uncertainty::Sampled { draws: DRAWS }))?,
                _ => reconstruct(Some(Uncertainty::Linearised))?,
            }
            if round > 0 {
                laps.push(started.elapsed().as_secs_f64() * 1e3);
            }
        }
    }
    let medians = laps.map(|mut laps| {
        laps.sort_by(f64::total_cmp);
        laps[laps.len() / 2]
    });
    let [embed, mean, sampled, linearised] = medians;
    let json = json!({
        "task": "infer", "size": args.size.typed(), "regions": regions, "frames": args.frames, "steps": args.steps,
        "threads": rayon::current_num_threads(), "embed_ms": rounded(embed), "mean_ms": rounded(mean),
        "sampled_ms": rounded(sampled), "linearised_ms": rounded(linearised), "draws": DRAWS,
        "mean_over_embed": rounded(mean / embed), "sampled_over_embed": rounded(sampled / embed),
        "linearised_over_embed": rounded(linearised / embed),
    });
    let text = format!(
        "one scan of {} frames and {regions} regions, {}: embed {embed:.1} ms, reconstruct {mean:.1} ms ({:.2} x), with {DRAWS} \
         draws {sampled:.1} ms ({:.2} x), linearised {linearised:.1} ms ({:.2} x)",
        args.frames,
        args.size.typed(),
        mean / embed,
        sampled / embed,
        linearised / embed
    );
    Ok(Answer::new(json, text))
}

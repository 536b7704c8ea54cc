//! pyarrow and polars open a cohort as it is.

use crate::program::run_json;

const SCRIPT: &str = r"
import sys, json, glob
import pyarrow as pa, pyarrow.ipc
import polars as pl
folder = sys.argv[1]
rows = []
for part in sorted(glob.glob(folder + '/scans/part-*.arrow')):
    with pa.memory_map(part) as source:
        reader = pa.ipc.open_file(source)
        for i in range(reader.num_record_batches):
            batch = reader.get_batch(i)
            assert batch.num_rows == 1
            row = batch.to_pylist()[0]
            rows.append([row['subject'], row['n_frames'], len(row['series']), len(row['series'][0]), sum(map(sum, row['series'])), row['frame_times_seconds'][1]])
    frame = pl.read_ipc(part)
    assert frame['series'].dtype == pl.List(pl.Array(pl.Float32, 12)), frame['series'].dtype
people = pl.read_csv(folder + '/participants.tsv', separator='\t', null_values='n/a')
print(json.dumps({'rows': rows, 'people': people.height}))
";

#[test]
fn pyarrow_and_polars_read_the_same_numbers() {
    let Ok(python) = std::env::var("BDO_PYTHON") else {
        println!("SKIPPED: BDO_PYTHON is not set (cargo xtask check sets it), pyarrow and polars were not tried");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    run_json(dir.path(), "simulate c --subjects 70 --regions 12 --frames 300 --part-mib 1 --tr 0.8 --sites 1");
    let output = std::process::Command::new(python).args(["-c", SCRIPT]).arg(dir.path().join("c")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let seen: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let cohort = bdo_data::cohort::Cohort::open(&dir.path().join("c")).unwrap();
    assert!(cohort.manifest().parts.len() > 1);
    assert_eq!(seen["people"], 70);
    let rows = seen["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 70);
    for (i, row) in rows.iter().enumerate() {
        let scan = cohort.scan(i).unwrap();
        assert_eq!(row[0], scan.id.subject);
        assert_eq!((row[1].as_u64(), row[2].as_u64(), row[3].as_u64()), (Some(300), Some(300), Some(12)));
        let frames = scan.series.chunks_exact(12).map(|f| f.iter().map(|x| f64::from(*x)).sum::<f64>());
        let sum: f64 = frames.sum();
        assert!((row[4].as_f64().unwrap() - sum).abs() < 1e-9 * sum.abs());
        assert_eq!(row[5].as_f64(), Some(0.8));
    }
}

//! A full disk stops with a sentence, publishes nothing, and the same command goes on once there is room.

use crate::program::{SmallDisk, names, run};

#[test]
fn a_full_disk_is_said_and_nothing_is_lost() {
    for kibibytes in [0, 64, 1500, 2600] {
        let Some(disk) = SmallDisk::mount(kibibytes.max(4)) else {
            println!("SKIPPED: this machine does not let us mount a small disk, the full-disk test did not run");
            return;
        };
        let folder = disk.path();
        let arguments = "simulate c --subjects 100 --regions 60 --frames 120 --part-mib 1 --quiet";
        let output = run(folder, arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains("the disk is full") && error.lines().count() == 1, "{error}");
        assert!(!folder.join("c").exists());
        disk.grow(64 << 10);
        assert!(run(folder, arguments).status.success());
        assert!(run(folder, "inspect c --verify").status.success());
        assert_eq!(names(folder), ["c"]);
    }
}

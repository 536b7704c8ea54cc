//! Model directories of which one file is something else: refused or read, never a crash.

#[allow(unreachable_pub)]
#[path = "../../../../fuzz/src/model_directory.rs"]
pub(crate) mod model_directory;
#[allow(unreachable_pub)]
#[path = "../../../../fuzz/src/mutate.rs"]
mod mutate;

#[test]
fn any_file_of_a_model_directory() {
    let seeds = model_directory::seeds();
    assert_eq!(seeds.len(), 4);
    mutate::run("model_directory", model_directory::model_directory, seeds, mutate::executions());
}

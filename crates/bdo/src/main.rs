//! The program `bdo`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(bdo::program(std::env::args_os()))
}

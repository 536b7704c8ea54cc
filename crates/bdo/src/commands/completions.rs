//! `bdo completions`: scripts that complete `bdo` in a shell, and man pages.

use std::path::PathBuf;

use anyhow::Context;
use bdo_data::durable;
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use serde_json::json;

use crate::answer::Answer;
use crate::args::{Choice, Choices, Maybe, one_of};
use crate::cli::Cli;

/// Print the completions of a shell, or write man pages
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bdo completions bash > ~/.local/share/bash-completion/completions/bdo\n  bdo completions fish > ~/.config/fish/completions/bdo.fish\n  bdo completions man --out ~/.local/share/man/man1"
)]
pub(crate) struct CompletionsArgs {
    /// The shell, or `man` for man pages
    #[arg(value_name = "SHELL", value_parser = one_of::<Maybe<Shell>>())]
    of: Maybe<Shell>,
    /// Folder for the man pages, one per verb, or for the script instead of stdout
    #[arg(long, value_name = "DIR", help_heading = "Output", required_if_eq("of", "man"))]
    out: Option<PathBuf>,
}

impl Choice for Option<Shell> {
    const CHOICES: Choices<Self> = &[
        (Some(Shell::Bash), "bash", "GNU Bash"),
        (Some(Shell::Elvish), "elvish", "Elvish"),
        (Some(Shell::Fish), "fish", "fish"),
        (Some(Shell::PowerShell), "powershell", "PowerShell"),
        (Some(Shell::Zsh), "zsh", "Z shell"),
        (None, "man", "Man pages, one per verb"),
    ];
}

pub(crate) fn run(args: &CompletionsArgs) -> anyhow::Result<Answer> {
    let mut command = Cli::command();
    let Some(shell) = args.of else {
        let out = args.out.as_ref().context("--out: expected a folder for man pages, found none")?;
        durable::create_folder(out)?;
        clap_mangen::generate_to(command, out).with_context(|| format!("cannot write to {}", out.display()))?;
        return Ok(Answer::new(json!({"man": out}), format!("{}: see man -l {0}/bdo.1", out.display())));
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "bdo", &mut script);
    let script = String::from_utf8(script).context("a completion script is text")?;
    let Some(out) = &args.out else { return Ok(Answer::new(json!({"script": script}), script)) };
    durable::create_folder(out)?;
    let file = out.join(clap_complete::Generator::file_name(&shell, "bdo"));
    durable::write(&file, script.as_bytes())?;
    Ok(Answer::new(json!({"script": file}), file.display().to_string()))
}

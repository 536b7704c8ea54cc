//! The size of the code: lines, long functions, dependencies and the program.

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::{entries, root};

/// Longest function that still counts as short.
const MOST_LINES: usize = 100;

pub(crate) fn run() -> anyhow::Result<()> {
    let (mut code, mut tests) = (0, 0);
    let mut long = vec![];
    let mut crates: Vec<PathBuf> = entries(&root().join("crates"))?;
    crates.extend(["bindings/python", "xtask"].map(|folder| root().join(folder)));
    println!("| crate | lines outside tests | lines of tests |\n|---|---|---|");
    for folder in crates {
        let mut sums = [0, 0];
        for file in rust_files(&folder)? {
            let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
            let total = text.lines().count();
            let below = file.strip_prefix(&folder).unwrap_or(&file);
            let of_tests = below.with_extension("").components().any(|part| part.as_os_str() == "tests");
            // Unit tests stand at the end of a file.
            let outside = text.lines().position(|l| l.starts_with("#[cfg(test)]")).unwrap_or(total);
            let outside = if of_tests { 0 } else { outside };
            sums[0] += outside;
            sums[1] += total - outside;
            long.extend(long_functions(&text).into_iter().map(|(name, lines)| {
                format!("{} {name}: {lines} lines", file.strip_prefix(root()).unwrap_or(&file).display())
            }));
        }
        println!("| {} | {} | {} |", folder.file_name().unwrap_or_default().display(), sums[0], sums[1]);
        code += sums[0];
        tests += sums[1];
    }
    println!("| all | {code} | {tests} |\n");
    println!("functions over {MOST_LINES} lines: {}", long.len());
    long.iter().for_each(|line| println!("  {line}"));
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).context("Cargo.lock")?;
    println!("packages in Cargo.lock: {}", lock.matches("[[package]]").count());
    match std::fs::metadata(root().join("target/release/bdo")) {
        Ok(program) => println!("program: {:.1} MB", program.len() as f64 / 1e6),
        Err(_) => println!("program: not built (cargo build --release)"),
    }
    Ok(())
}

/// Functions longer than they should be: formatted code closes a function at the indentation it opened it with.
fn long_functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = vec![];
    for (start, line) in lines.iter().enumerate() {
        let opening = line.trim_start();
        let indent = line.len() - opening.len();
        let Some((before, after)) = opening.split_once("fn ") else { continue };
        let words = ["", "pub ", "pub(crate) ", "pub(super) ", "const ", "unsafe ", "async "];
        let declared = line.ends_with(';');
        if declared || !before.split_inclusive(' ').all(|word| words.contains(&word)) {
            continue;
        }
        let close = format!("{}}}", " ".repeat(indent));
        let Some(length) = lines[start..].iter().position(|l| *l == close) else { continue };
        if length + 1 > MOST_LINES {
            let name = after.split(['(', '<']).next().unwrap_or_default();
            found.push((name.to_owned(), length + 1));
        }
    }
    found
}

fn rust_files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = vec![];
    for path in entries(folder)? {
        if path.is_dir() {
            found.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    Ok(found)
}

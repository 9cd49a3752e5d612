//! Compares two outputs and says why they differ: `cargo run --example compare -- LEFT RIGHT`.
#![expect(clippy::print_stdout, reason = "an example prints its result")]

use refrain_compare::{Options, compare};
use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let outputs: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [left, right] = outputs.as_slice() else { return Err("two paths are needed".into()) };
    let comparison = compare(left, right, &Options::default())?;
    for file in &comparison.files {
        println!("{}: {}", file.name(), file.summary());
        for finding in &file.findings {
            println!("    {finding}");
        }
    }
    println!("{} files are equal to the byte", comparison.equal_files);
    Ok(())
}

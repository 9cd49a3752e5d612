//! Writes what COPY takes to standard output, and what stands behind COPY to standard error:
//! `cargo run --example copy -- FILE [NULL] | psql -c "COPY t FROM STDIN ..."`.
#![expect(clippy::print_stderr, reason = "an example says what it found")]

use refrain_load::{Format, Options, open};
use std::error::Error;
use std::io::Write;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("a path is needed")?;
    let format = Format::of(&path).ok_or("the file's name tells no format")?;
    let options = Options { null: std::env::args().nth(2), ..Options::default() };
    let mut source = open(&path, format, &options).map_err(|error| error.to_string())?;
    eprintln!("columns ({}) {}", source.columns().join(", "), source.dialect());
    let (mut chunk, mut output) = (vec![], std::io::stdout().lock());
    while source.next_chunk(&mut chunk).map_err(|error| error.to_string())? {
        output.write_all(&chunk)?;
    }
    eprintln!("{} rows, {} bytes, blake3:{}", source.rows().unwrap_or_default(), source.bytes(), source.digest());
    Ok(())
}

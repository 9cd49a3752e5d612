//! `refrain id`: ids of rows, derived so that a repeated run gives the same ones. Needs no home.

use crate::args::IdArgs;
use crate::output;
use refrain::row_id::RowIds;
use refrain::{Error, Result};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;

/// Bytes that are read and written at a time.
const BUFFER: usize = 64 * 1024;

/// Prints the id of each row key, one a line.
pub(crate) fn id(args: &IdArgs) -> Result<()> {
    let ids = RowIds::of(&args.name)?;
    let mut printed = BufWriter::with_capacity(BUFFER, io::stdout().lock());
    if args.row_keys.is_empty() {
        return from_stdin(&ids, if args.null { b'\0' } else { b'\n' }, &mut printed);
    }
    for key in &args.row_keys {
        if !output::written(writeln!(printed, "{}", ids.id(key.as_bytes())?)) {
            return Ok(());
        }
    }
    output::written(printed.flush());
    Ok(())
}

/// Each key is answered as soon as no further one is at hand, so that a task can ask one by one.
fn from_stdin(ids: &RowIds, end: u8, printed: &mut impl Write) -> Result<()> {
    let mut keys = BufReader::with_capacity(BUFFER, io::stdin().lock());
    let mut key = Vec::new();
    for number in 1_u64.. {
        key.clear();
        let read = keys.read_until(end, &mut key).map_err(|error| Error::io("cannot read standard input", error))?;
        if read == 0 {
            break;
        }
        key.pop_if(|last| *last == end);
        let id = ids.id(&key).map_err(|error| error.within(format!("row key {number} of standard input")))?;
        let more = !keys.buffer().is_empty();
        let told = writeln!(printed, "{id}").and_then(|()| if more { Ok(()) } else { printed.flush() });
        if !output::written(told) {
            return Ok(());
        }
    }
    output::written(printed.flush());
    Ok(())
}

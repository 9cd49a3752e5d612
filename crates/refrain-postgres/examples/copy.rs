//! Copies a file into a table: `copy URL "COPY t FROM STDIN (FORMAT csv)" FILE BYTES_A_PIECE`.

use refrain_postgres::{Limits, Link, Session};
use std::error::Error;
use std::fs::File;
use std::io::Read;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, sql, file, piece] = arguments.as_slice() else { return Err("URL SQL FILE BYTES".into()) };
    let link = Link::parse(url)?;
    let mut session = Session::open(&link, "copy").map_err(|fault| fault.during("connect"))?;
    let mut transaction =
        session.write(&Limits { statement: None, ..Limits::default() }).map_err(|fault| fault.during("begin"))?;
    let mut copy = transaction.copy_in(sql).map_err(|fault| fault.during("copy"))?;
    let (mut file, piece) = (File::open(file)?, piece.parse()?);
    loop {
        let mut buffer = vec![0; piece];
        let length = file.read(&mut buffer)?;
        if length == 0 {
            break;
        }
        buffer.truncate(length);
        copy.send(buffer).map_err(|fault| fault.during("copy"))?;
    }
    copy.finish().map_err(|fault| fault.during("copy"))?;
    transaction.commit("SELECT 1").map_err(|fault| fault.during("commit"))?;
    Ok(())
}

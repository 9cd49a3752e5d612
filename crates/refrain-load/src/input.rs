//! The bytes of a file, hashed on the way, unpacked where they are packed.

use blake3::{Hash, Hasher};
use flate2::bufread::MultiGzDecoder;
use refrain_core::{Error, Result};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::Path;

const BUFFER_BYTES: usize = 128 << 10;

/// The memory that a zstd stream may ask for, as a power of two: 32 MiB.
const ZSTD_WINDOW_LOG: u32 = 25;

/// A file whose bytes are hashed as they are read.
pub(crate) struct Hashed {
    file: File,
    hasher: Hasher,
    bytes: u64,
}

impl Read for Hashed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.hasher.update(&buffer[..count]);
        self.bytes += count as u64;
        Ok(count)
    }
}

/// What is in a file.
pub(crate) enum Input {
    Plain(Box<Hashed>),
    Gzip(Box<MultiGzDecoder<BufReader<Hashed>>>),
    Zstd(Box<zstd::stream::read::Decoder<'static, BufReader<Hashed>>>),
}

impl Input {
    /// Opens a file, packed or not: no text begins with the magic numbers of the packings, for they are no UTF-8.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        Self::try_open(path).map_err(|error| unreadable(path, error))
    }

    fn try_open(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let mut magic = vec![];
        file.by_ref().take(4).read_to_end(&mut magic)?;
        file.rewind()?;
        let hashed = Hashed { file, hasher: Hasher::new(), bytes: 0 };
        let buffered = |hashed| BufReader::with_capacity(BUFFER_BYTES, hashed);
        Ok(match *magic {
            [0x1f, 0x8b, ..] => Self::Gzip(Box::new(MultiGzDecoder::new(buffered(hashed)))),
            [0x28, 0xb5, 0x2f, 0xfd] => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(buffered(hashed))?;
                decoder.window_log_max(ZSTD_WINDOW_LOG)?;
                Self::Zstd(Box::new(decoder))
            }
            _ => Self::Plain(Box::new(hashed)),
        })
    }

    /// The digest of the file's bytes and their number, once all was read.
    pub(crate) fn measured(&self) -> (Hash, u64) {
        let hashed: &Hashed = match self {
            Self::Plain(hashed) => hashed,
            Self::Gzip(decoder) => decoder.get_ref().get_ref(),
            Self::Zstd(decoder) => decoder.get_ref().get_ref(),
        };
        (hashed.hasher.finalize(), hashed.bytes)
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(hashed) => hashed.read(buffer),
            Self::Gzip(decoder) => decoder.read(buffer),
            Self::Zstd(decoder) => decoder.read(buffer),
        }
    }
}

/// Hashes a file from its start to its end in step with somebody who reads it in another order, so that its bytes are read
/// from the disk once.
pub(crate) struct Trail {
    hashed: Hashed,
    size: u64,
    buffer: Vec<u8>,
}

impl Trail {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        Ok(Self { hashed: Hashed { file, hasher: Hasher::new(), bytes: 0 }, size, buffer: vec![0; BUFFER_BYTES] })
    }

    /// The size of the file when it was opened.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Hashes up to about `place`.
    pub(crate) fn follow(&mut self, place: u64) -> io::Result<()> {
        while self.hashed.bytes < place && self.hashed.read(&mut self.buffer)? > 0 {}
        Ok(())
    }

    /// The digest of the file's bytes and their number.
    pub(crate) fn measured(&self) -> (Hash, u64) {
        (self.hashed.hasher.finalize(), self.hashed.bytes)
    }
}

/// The error for a file that cannot be read: the system's failure, or data that cannot be unpacked.
pub(crate) fn unreadable(path: &Path, error: io::Error) -> Error {
    use io::ErrorKind::{InvalidData, InvalidInput, Other, UnexpectedEof};
    if matches!(error.kind(), InvalidData | InvalidInput | UnexpectedEof | Other) {
        return Error::guard(format!(
            "`{}` cannot be unpacked: it is damaged or was not written to its end",
            path.display()
        ))
        .because(error);
    }
    Error::io(format!("cannot read `{}`", path.display()), error)
}

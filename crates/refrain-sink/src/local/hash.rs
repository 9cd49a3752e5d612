//! BLAKE3 of file contents, on all cores for big files.
//!
//! A file is cut into leaves of a power of two; threads hash leaf after leaf, each with one small buffer, and the
//! leaves' chaining values are merged as BLAKE3's own tree prescribes, so that the digest is the plain one of the
//! content. Memory does not grow with the file.

use blake3::hazmat::{ChainingValue, HasherExt, Mode, left_subtree_len, merge_subtrees_non_root, merge_subtrees_root};
use blake3::{Hash, Hasher};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

const LEAF: u64 = 4 * 1024 * 1024;
const BUFFER: usize = 1024 * 1024;
const MOST_THREADS: usize = 4;

/// Hashes `size` bytes of a file. An error of kind `UnexpectedEof` says that it has fewer.
pub(crate) fn hash_file(file: &File, size: u64) -> io::Result<Hash> {
    if size <= LEAF {
        let mut hasher = Hasher::new();
        feed(&mut hasher, file, 0, size, &mut Vec::new())?;
        return Ok(hasher.finalize());
    }
    let leaves = hash_leaves(file, size)?;
    let left = left_subtree_len(size);
    let (left_leaves, right_leaves) = leaves.split_at(count(left));
    let (left, right) = (merge(left_leaves, left), merge(right_leaves, size - left));
    Ok(merge_subtrees_root(&left, &right, Mode::Hash))
}

fn hash_leaves(file: &File, size: u64) -> io::Result<Vec<ChainingValue>> {
    let total = size.div_ceil(LEAF);
    let next = AtomicU64::new(0);
    let done = Mutex::new(vec![ChainingValue::default(); count(size)]);
    let work = || -> io::Result<()> {
        let mut buffer = Vec::new();
        loop {
            let leaf = next.fetch_add(1, Ordering::Relaxed);
            if leaf >= total {
                return Ok(());
            }
            let offset = leaf * LEAF;
            let mut hasher = Hasher::new();
            hasher.set_input_offset(offset);
            feed(&mut hasher, file, offset, LEAF.min(size - offset), &mut buffer)?;
            let value = hasher.finalize_non_root();
            let mut done = done.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if let Some(slot) = usize::try_from(leaf).ok().and_then(|leaf| done.get_mut(leaf)) {
                *slot = value;
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
    thread::scope(|scope| {
        let helpers: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut result = work();
        for helper in helpers {
            let helped = helper.join().unwrap_or_else(|_| Err(io::Error::other("a hashing thread ended early")));
            result = result.and(helped);
        }
        result
    })?;
    Ok(done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}

fn count(bytes: u64) -> usize {
    usize::try_from(bytes.div_ceil(LEAF)).unwrap_or(usize::MAX)
}

fn merge(leaves: &[ChainingValue], bytes: u64) -> ChainingValue {
    if bytes <= LEAF {
        return leaves.first().copied().unwrap_or_default();
    }
    let left = left_subtree_len(bytes);
    let (left_leaves, right_leaves) = leaves.split_at(count(left));
    merge_subtrees_non_root(&merge(left_leaves, left), &merge(right_leaves, bytes - left), Mode::Hash)
}

fn feed(hasher: &mut Hasher, file: &File, offset: u64, length: u64, buffer: &mut Vec<u8>) -> io::Result<()> {
    let mut done = 0;
    while done < length {
        let wanted = usize::try_from(length - done).unwrap_or(BUFFER).min(BUFFER);
        if buffer.len() < wanted {
            buffer.resize(wanted, 0);
        }
        let read = file.read_at(buffer.get_mut(..wanted).unwrap_or_default(), offset + done)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        hasher.update(buffer.get(..read).unwrap_or_default());
        done += read as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_is_the_plain_one_at_every_border_of_a_leaf() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let leaf = usize::try_from(LEAF).unwrap();
        for size in [0, 1, 1024, BUFFER + 1, leaf, leaf + 1, 2 * leaf, 3 * leaf - 1, 5 * leaf + 1025, 8 * leaf] {
            let content: Vec<u8> = (0..size).map(|at| u8::try_from(at * 7 % 251).unwrap()).collect();
            std::fs::write(&path, &content).unwrap();
            let got = hash_file(&File::open(&path).unwrap(), size as u64).unwrap();
            assert_eq!(got, blake3::hash(&content), "{size} bytes");
        }
        let short = hash_file(&File::open(&path).unwrap(), 9 * LEAF);
        assert_eq!(short.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}

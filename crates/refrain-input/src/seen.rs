//! Digests of files that were read before, so that a file that did not change is not read again.
//!
//! Only a cache: a missing, old, torn or damaged one costs reading. It speaks for a file only when identity, size and
//! both times are what they were, and only if they were clearly older than the moment of reading (`moment`).
//! What was recorded in another boot does not count, since a power cut may keep the times of a file and lose its
//! content. Filesystems whose stats are not of this kernel (network, FUSE) are not remembered.

use crate::content::digest_file;
use crate::cores::on_all_cores;
use crate::listing::Listing;
use crate::moment::Moment;
use crate::place;
use crate::stat::Stat;
use blake3::Hash;
use refrain_core::Result;
use rustix::fs::FlockOperation;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;

/// The directory of these files, in the state directory; one file for each directory that inputs were read from.
pub(crate) const SEEN: &str = "seen";

const MAGIC: &[u8] = b"refrain seen 1\n";
const RECORD_BYTES: usize = 72;
/// More than this, and only what was asked for since is kept.
const MOST_RECORDS: usize = 100_000;
const MOST_FILES: usize = 256;
const MOST_WAITS: u32 = 5;

/// The magic numbers of statfs(2): ext2 to 4, xfs, btrfs, tmpfs, overlayfs, f2fs, zfs, bcachefs.
const LOCAL: [u32; 8] =
    [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994, 0x794C_7630, 0xF2F5_2010, 0x2FC1_2FC1, 0xCA45_1A4E];

/// What is remembered of the files below one directory.
#[derive(Debug)]
pub(crate) struct Seen {
    path: PathBuf,
    boot: Option<[u8; 36]>,
    /// The device whose stats are trusted.
    device: Option<u64>,
    /// By device and inode.
    records: Vec<Record>,
    learned: Vec<Record>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    device: u64,
    inode: u64,
    bytes: u64,
    written_ns: i64,
    changed_ns: i64,
    digest: Hash,
    asked: bool,
}

impl Seen {
    /// Knows and remembers nothing.
    pub(crate) fn nothing() -> Self {
        Self { path: PathBuf::new(), boot: None, device: None, records: Vec::new(), learned: Vec::new() }
    }

    /// What is remembered of files below `root`.
    pub(crate) fn of(state: &Path, root: &Path) -> Self {
        Self::under(state, root.as_os_str().as_bytes(), trusted_device(root))
    }

    /// What is remembered of files of one filesystem whose stats are trusted, wherever they are.
    pub(crate) fn of_device(state: &Path, device: u64) -> Self {
        // No directory has such a name.
        Self::under(state, format!("device\0{device}").as_bytes(), Some(device))
    }

    fn under(state: &Path, name: &[u8], device: Option<u64>) -> Self {
        let name = blake3::hash(name).to_hex();
        let path = state.join(SEEN).join(name.get(..32).unwrap_or_default());
        let mut seen = Self { path, boot: boot(), device, records: Vec::new(), learned: Vec::new() };
        if seen.device.is_some() {
            seen.records = seen.load().unwrap_or_default();
        }
        seen
    }

    /// Fills in the digests that are known.
    pub(crate) fn recall(&mut self, listing: &mut Listing) {
        for (stat, digest) in listing.files_mut() {
            let found = self.records.binary_search_by_key(&(stat.device, stat.inode), Record::identity);
            if let Some(record) = found.ok().and_then(|index| self.records.get_mut(index))
                && record.speaks_for(stat)
            {
                record.asked = true;
                *digest = Some(record.digest);
            }
        }
    }

    /// Fills in all digests; what is not known is read.
    ///
    /// # Errors
    /// `unavailable` when a file changes meanwhile; `internal` when one cannot be read.
    pub(crate) fn complete(&mut self, listing: &mut Listing) -> Result<()> {
        let unknown: Vec<_> = listing
            .files()
            .filter(|(_, _, digest)| digest.is_none())
            .map(|(entry, stat, _)| (listing.place(entry), *stat))
            .collect();
        let moment = Moment::now();
        let digests = on_all_cores(&unknown, |(place, stat)| digest_file(place, stat))?;
        let mut digests = digests.into_iter();
        for (stat, digest) in listing.files_mut().filter(|(_, digest)| digest.is_none()) {
            if let Some((read, now)) = digests.next() {
                (*stat, *digest) = (now, Some(read));
                self.learn(stat, read, moment);
            }
        }
        Ok(())
    }

    /// Knows from now on what this process wrote itself, and remembers of it what is settled at the moment.
    pub(crate) fn adopt(&mut self, made: &[(Stat, Hash)], moment: Moment) {
        for (stat, digest) in made {
            self.learn(stat, *digest, moment);
        }
        self.records = made.iter().map(|(stat, digest)| Record::new(stat, *digest)).collect();
        self.records.sort_unstable_by_key(Record::identity);
    }

    /// Remembers a digest that was taken at the moment or later.
    pub(crate) fn learn(&mut self, stat: &Stat, digest: Hash, moment: Moment) {
        if self.device == Some(stat.device) && moment.is_clearly_after(stat) {
            self.learned.push(Record::new(stat, digest));
        }
    }

    /// Writes down what was learned. A failure costs reading again.
    ///
    /// # Crash safety
    /// A new file takes the old one's place with one rename and bears its own digest: one that is torn does not count.
    pub(crate) fn save(self) {
        if let Err(error) = self.try_save() {
            tracing::debug!(%error, "digests of inputs could not be remembered");
        }
    }

    fn try_save(mut self) -> io::Result<()> {
        let (Some(boot), false) = (self.boot, self.learned.is_empty()) else { return Ok(()) };
        // What another process learned since is kept, too.
        let mut all = self.load().unwrap_or_default();
        for record in &mut all {
            let asked = self.records.binary_search_by_key(&record.identity(), Record::identity);
            record.asked = asked.is_ok_and(|index| self.records.get(index).is_some_and(|known| known.asked));
        }
        all.append(&mut self.learned);
        // The last of one file is the newest: a stable sort keeps it first.
        all.reverse();
        all.sort_by_key(Record::identity);
        all.dedup_by_key(|record| record.identity());
        if all.len() > MOST_RECORDS {
            all.retain(|record| record.asked);
        }
        let mut text = Vec::with_capacity(all.len() * RECORD_BYTES + 128);
        text.extend_from_slice(MAGIC);
        text.extend_from_slice(&boot);
        for record in &all {
            record.write(&mut text);
        }
        let check = blake3::hash(&text);
        text.extend_from_slice(check.as_bytes());
        let Some(directory) = self.path.parent() else { return Ok(()) };
        place::make_private(directory)?;
        let new = self.path.with_extension("new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&new)?;
        // Another process writes now: what it learned serves as well.
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err()
            || !place::is_still_at(&file, &new)?
        {
            return Ok(());
        }
        file.set_len(0)?;
        file.write_all(&text)?;
        let fresh = !self.path.exists();
        place::replace(&new, &self.path)?;
        if fresh { bound(directory) } else { Ok(()) }
    }

    fn load(&self) -> Option<Vec<Record>> {
        let text = fs::read(&self.path).ok()?;
        let (content, check) = text.split_at_checked(text.len().checked_sub(blake3::OUT_LEN)?)?;
        let records = content.strip_prefix(MAGIC)?.strip_prefix(self.boot.as_ref()?)?;
        (blake3::hash(content).as_bytes() == check)
            .then(|| records.chunks_exact(RECORD_BYTES).map(Record::read).collect())
    }
}

impl Record {
    fn new(stat: &Stat, digest: Hash) -> Self {
        let Stat { device, inode, bytes, written_ns, changed_ns, .. } = *stat;
        Self { device, inode, bytes, written_ns, changed_ns, digest, asked: true }
    }

    fn identity(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    fn speaks_for(&self, stat: &Stat) -> bool {
        (self.bytes, self.written_ns, self.changed_ns) == (stat.bytes, stat.written_ns, stat.changed_ns)
    }

    fn write(&self, text: &mut Vec<u8>) {
        for number in [self.device, self.inode, self.bytes] {
            text.extend_from_slice(&number.to_le_bytes());
        }
        text.extend_from_slice(&self.written_ns.to_le_bytes());
        text.extend_from_slice(&self.changed_ns.to_le_bytes());
        text.extend_from_slice(self.digest.as_bytes());
    }

    fn read(text: &[u8]) -> Self {
        let part =
            |index: usize| text.get(index * 8..index * 8 + 8).and_then(|part| part.try_into().ok()).unwrap_or_default();
        let digest = text.get(40..RECORD_BYTES).and_then(|part| <[u8; 32]>::try_from(part).ok()).unwrap_or_default();
        Self {
            device: u64::from_le_bytes(part(0)),
            inode: u64::from_le_bytes(part(1)),
            bytes: u64::from_le_bytes(part(2)),
            written_ns: i64::from_le_bytes(part(3)),
            changed_ns: i64::from_le_bytes(part(4)),
            digest: Hash::from_bytes(digest),
            asked: false,
        }
    }
}

/// Waits until what was just written is clearly older, where that is a matter of milliseconds: from then on a change
/// shows in the times. Returns whether it waited.
pub(crate) fn wait_until_settled<'a>(stats: impl Iterator<Item = &'a Stat>) -> bool {
    let now = Moment::now();
    let young: Vec<&Stat> = stats.filter(|stat| now.wait_for(stat).is_some()).collect();
    let mut waited = false;
    for _ in 0..MOST_WAITS {
        let now = Moment::now();
        let Some(wait) = young.iter().filter_map(|stat| now.wait_for(stat)).max() else { break };
        thread::sleep(wait);
        waited = true;
    }
    waited
}

/// Names the time since this kernel was started: what was written in another may have been torn by a power cut.
pub(crate) fn boot() -> Option<[u8; 36]> {
    fs::read("/proc/sys/kernel/random/boot_id").ok().and_then(|id| id.get(..36)?.try_into().ok())
}

/// The device of a directory on a filesystem whose stats are this kernel's own.
pub(crate) fn trusted_device(root: &Path) -> Option<u64> {
    let kind = rustix::fs::statfs(root).ok()?.f_type;
    let known = LOCAL.iter().any(|local| u64::from(*local) == u64::try_from(kind).unwrap_or_default() & 0xFFFF_FFFF);
    known.then(|| fs::metadata(root).ok().map(|found| Stat::of(&found).device))?
}

/// Directories whose files were not read for the longest time are forgotten.
fn bound(directory: &Path) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        files.push((entry.metadata()?.modified()?, entry.path()));
    }
    files.sort();
    for (_, path) in files.iter().take(files.len().saturating_sub(MOST_FILES)) {
        place::remove(path)?;
    }
    Ok(())
}

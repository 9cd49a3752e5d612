//! Steps in words.

use super::code::{Code, Request};
use super::intern::Id;
use super::names::letter;

/// A step and how it went.
#[derive(Clone, Copy, Debug)]
pub(super) struct Label {
    pub(super) made: Move,
    pub(super) note: Note,
}

/// What somebody did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    Acquire(u8),
    AcquireUnanswered(u8),
    Send(u8, Id),
    Call(u8, Id),
    Deliver(Id),
    Duplicate(Id),
    TimeOut(u8),
    GiveUp(u8),
    Raise(u8),
    OpenRun(u8),
    OpenRunUnanswered(u8),
    Look(u8),
    StartTask(u8),
    Seal(u8),
    TaskFails(u8),
    NoticeLoss(u8),
    DefiniteFailure(u8),
    Finish(u8),
    Crash(u8),
    FreshToken(u8),
    ResolveByReading(u8),
    LoseStore,
    Backup,
    RestoreStore,
    DropSlot(u8),
    PowerCut,
    ReadHead(u8, u8),
    File(u8, FileStep),
    Overwrite(u8),
    LoseData(u8),
}

/// A step of a call to a filesystem sink (9.3, 9.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileStep {
    Lock,
    Redo,
    Landed,
    Overwritten,
    Undo,
    Sync,
    RecordRecovered,
    Decide,
    Intend,
    SyncIntent,
    IntentFails,
    Rename,
    RenameFails,
    RenameFailsMoved,
    SyncFails,
    Record,
    Withdraw,
    FindMoved,
}

/// How it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Note {
    Done,
    Granted,
    TookOver,
    Held,
    NotHolder,
    Opened,
    Proposing,
    Accepted,
    Stood,
    Fenced,
    Refused,
    Rejected,
    DataLost,
    Published,
    AlreadyPublished,
    Decided,
    Pending,
    Superseded,
    NotPublished,
    Unknown,
}

impl Label {
    pub(super) fn describe(self, code: &Code) -> String {
        let recovery = code.config.recovery_process();
        let who = |process: u8| letter(usize::from(process), recovery);
        let what = match self.made {
            Move::Acquire(p) => format!("{} asks for the lease (3.1, 5.1)", who(p)),
            Move::AcquireUnanswered(p) => format!("{} is granted the lease, the answer is lost (3.1)", who(p)),
            Move::Send(_, request) => format!("{} is sent", request_in_words(code, request)),
            Move::Call(_, request) => format!("{} is carried out", request_in_words(code, request)),
            Move::Deliver(request) => format!("{} arrives", request_in_words(code, request)),
            Move::Duplicate(request) => format!("{} is repeated by the network", request_in_words(code, request)),
            Move::TimeOut(p) => format!("{} waits no longer and will send the identical request again (4.5)", who(p)),
            Move::GiveUp(p) => format!("{} waits no longer and gives up (5.11)", who(p)),
            Move::Raise(p) => format!("{} asks for a token above the one it found (4.3)", who(p)),
            Move::OpenRun(p) => format!("{} opens the run (3.4, 5.4)", who(p)),
            Move::OpenRunUnanswered(p) => format!("{} opens the run, the answer is lost (3.4)", who(p)),
            Move::Look(p) => format!("{} reads the head after the rejection (5.11)", who(p)),
            Move::StartTask(p) => format!("{} starts the task (5.7)", who(p)),
            Move::Seal(p) => format!("{} seals (5.8)", who(p)),
            Move::TaskFails(p) => format!("{}'s task fails (5.7)", who(p)),
            Move::NoticeLoss(p) => format!("{} notices that its lease is lost (5.7)", who(p)),
            Move::DefiniteFailure(p) => format!("{}'s commit fails before it is carried out", who(p)),
            Move::Finish(p) => format!("{} settles, releases and reports (5.10)", who(p)),
            Move::Crash(p) => format!("{} dies", who(p)),
            Move::FreshToken(p) => format!("{} takes a fresh token, claims, and will commit again", who(p)),
            Move::ResolveByReading(p) => format!("{} resolves its lost answer by a look at the head", who(p)),
            Move::LoseStore => "the store is lost and replaced (8.1)".to_owned(),
            Move::Backup => "the store is backed up".to_owned(),
            Move::RestoreStore => "the store is restored from the backup (8.1)".to_owned(),
            Move::DropSlot(slot) => format!("somebody drops slot s{} (13.1)", slot + 1),
            Move::PowerCut => "power cut: every process dies, unsynced records are lost or kept".to_owned(),
            Move::ReadHead(p, slot) => format!("the collector reads s{} for {}'s staging (7)", slot + 1, who(p)),
            Move::File(p, step) => format!("{} {}", who(p), step.in_words()),
            Move::LoseData(p) => {
                format!("somebody removes what {} sealed for the slots after its anchor (5.5)", who(p))
            }
            Move::Overwrite(slot) => format!("somebody else replaces what stands at s{} (13.2)", slot + 1),
        };
        match self.note.in_words() {
            "" => what,
            note => format!("{what}: {note}"),
        }
    }
}

impl FileStep {
    fn in_words(self) -> &'static str {
        match self {
            Self::Lock => "takes the slot's lock (9.1)",
            Self::Redo => "finds an intent whose data is still staged and does the rename (9.3 i)",
            Self::Landed => "finds an intent whose data stands at the target (9.3 ii)",
            Self::Overwritten => "finds an intent whose data is nowhere: it landed and was overwritten (9.3 iii)",
            Self::Undo => "finds an intent and drops it",
            Self::Sync => "syncs both directories (9.4)",
            Self::RecordRecovered => "writes the recovered head (9.3)",
            Self::Decide => "decides that the commit may go ahead (9.4)",
            Self::Intend => "writes the intent (9.4)",
            Self::SyncIntent => "syncs the intent (9.4)",
            Self::IntentFails => "is told that the sync of the intent failed (9.8)",
            Self::Rename => "renames the data to the target (9.4)",
            Self::RenameFails => "is told that the rename failed (9.8)",
            Self::RenameFailsMoved => "is told that the rename failed, but it was done (9.6)",
            Self::SyncFails => "is told that the sync failed: unknown (9.6)",
            Self::Record => "writes the head without intent, unlocks and answers (9.4)",
            Self::Withdraw => "withdraws the intent and unlocks (9.8)",
            Self::FindMoved => "finds by the inode that the data moved and goes on (9.8)",
        }
    }
}

impl Note {
    fn in_words(self) -> &'static str {
        match self {
            Self::Done => "",
            Self::Granted => "granted",
            Self::TookOver => "granted, the former lease counts as ended",
            Self::Held => "held by another",
            Self::NotHolder => "not the holder",
            Self::Opened => "a new generation",
            Self::Proposing => "a proposal is asked for",
            Self::Accepted => "accepted",
            Self::Stood => "stands already",
            Self::Fenced => "fenced",
            Self::Refused => "refused",
            Self::Rejected => "rejected",
            Self::DataLost => "the sealed data is lost",
            Self::Published => "published",
            Self::AlreadyPublished => "already published",
            Self::Decided => "decided",
            Self::Pending => "pending",
            Self::Superseded => "superseded",
            Self::NotPublished => "not published",
            Self::Unknown => "unknown",
        }
    }
}

fn request_in_words(code: &Code, request: Id) -> String {
    let kind = code.request(request);
    let who = |process: usize| letter(process, code.config.recovery_process());
    let (sender, slot) = (who(kind.sender), kind.slot + 1);
    match (kind.data_of, code.requests.get(request)) {
        (Some(data_of), Some(Request::Commit(_, commit))) => {
            let (generation, token) = (commit.publication.run.generation, commit.holder.token);
            let rule = if data_of == kind.sender { "5.9" } else { "5.5" };
            format!("{sender}'s commit of {}'s g{generation} to s{slot} with token {token} ({rule})", who(data_of))
        }
        (_, Some(Request::Claim(_, claim))) => {
            format!("{sender}'s claim of s{slot} with token {} (5.2)", claim.holder.token)
        }
        _ => "nothing".to_owned(),
    }
}

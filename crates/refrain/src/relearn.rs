//! Brings back what the heads beside the data know and the state store does not: after it was lost, or put back from a
//! backup (PROTOCOL 8.4). Whoever attempts a key learns its run from the head anyway; this is for those who only look.

use crate::boundary::Boundary;
use crate::peek::everywhere;
use refrain_core::{
    AttemptRecord, Ending, Error, ErrorKind, Head, Key, Outcome, Publication, Result, Shown, Token, Window,
};
use refrain_sink::{ShownKey, shown_keys};

/// Keys that one transaction learns.
const BATCH: usize = 500;

/// What was brought back.
#[derive(Debug, Default)]
pub struct Relearned {
    /// How many keys the store knew nothing of, or less.
    pub keys: u64,
    /// Keys whose head cannot be read, with the reason.
    pub unreadable: Vec<(Key, Error)>,
    /// Why what the store itself knows of keys cannot be read.
    pub records: Vec<Error>,
}

impl Boundary {
    /// Shows the store what the heads of the home's volumes show.
    ///
    /// # Errors
    /// `internal` when a volume cannot be read; what the store answers when it cannot be written.
    ///
    /// # Crash safety
    /// Every batch is one durable transaction. Dying between two leaves the rest for the next call; repeating it changes
    /// nothing more.
    pub fn relearn(&self) -> Result<Relearned> {
        let mut shown = Vec::new();
        let volumes = self.home.config.staging.iter().map(|staging| self.home.directory.join(staging));
        for root in std::iter::once(self.home.state()).chain(volumes) {
            shown.extend(shown_keys(&root)?);
        }
        shown.sort();
        let mut relearned = Relearned::default();
        for batch in shown.chunks(BATCH) {
            let mut known = Vec::new();
            for key in batch {
                match self.shown_now(key) {
                    Ok(shown) => known.extend(shown),
                    Err(error) => relearned.unreadable.push((key.key.clone(), error)),
                }
            }
            relearned.keys += self.learn(&known)?;
        }
        self.store.for_each_key(None, &mut |summary| {
            relearned.records.extend(self.why_unreadable(&summary)?);
            Ok(())
        })?;
        Ok(relearned)
    }

    /// Teaches the store; a key whose record cannot be read is left out.
    fn learn(&self, shown: &[Shown]) -> Result<u64> {
        match self.store.learn(shown) {
            Err(error) if error.kind == ErrorKind::Corrupt && shown.len() > 1 => {
                shown.chunks(1).map(|one| self.learn(one)).sum()
            }
            Err(error) if error.kind == ErrorKind::Corrupt => {
                tracing::info!(%error, "nothing is brought back of a key that cannot be read");
                Ok(0)
            }
            learned => learned,
        }
    }

    /// What the anchor's head shows of the key at this moment; nothing for a key that is compacted.
    fn shown_now(&self, shown: &ShownKey) -> Result<Option<Shown>> {
        let ShownKey { key, anchor, .. } = shown;
        let Some(head) = self.sinks.of(anchor)?.read(anchor)? else { return Ok(None) };
        let Some(publication) = head.publication_of(key).filter(|publication| publication.run.anchor() == Some(anchor))
        else {
            return Ok(None);
        };
        if self.folded_task(key)?.is_some() {
            return Ok(None);
        }
        Ok(Some(Shown { run: publication.run.clone(), attempt: self.attempt_of(key, publication, &head)? }))
    }

    fn attempt_of(&self, key: &Key, publication: &Publication, head: &Head) -> Result<AttemptRecord> {
        let anchor = publication.run.anchor().map(|anchor| self.locate(anchor)).unwrap_or_default();
        let holder = head.claim.as_ref().map(|claim| claim.holder);
        let token = holder.filter(|holder| holder.attempt == publication.attempt).map(|holder| holder.token);
        // An output that is still to follow is for the next run or `refrain recover`.
        let outcome = if everywhere(self, key, publication)? { Outcome::Published } else { Outcome::Decided };
        Ok(AttemptRecord {
            attempt: publication.attempt,
            key: key.clone(),
            token: token.unwrap_or_else(|| Token::new(0)),
            run: Some(publication.run.run_id),
            generation: Some(publication.run.generation),
            process: "{}".to_owned(),
            started_at: publication.sealed_at,
            ending: Some(Ending {
                at: publication.sealed_at,
                outcome,
                window: Window::Published,
                exit_code: None,
                stopped_by: None,
                error_kind: None,
                message: Some(format!("brought back from the head of {anchor}")),
                retry: None,
            }),
        })
    }
}

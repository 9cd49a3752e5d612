//! All inputs that are read by a location: paths and URLs of objects.

use crate::glance::{Glance, GlanceLimits};
use crate::local::LocalInput;
use crate::object::ObjectInput;
use refrain_core::{AttemptId, CrashProbe, Input, PinRequest, PinnedInput, Result};
use refrain_object::{Address, Settings};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

/// The inputs of a home: a location that is the URL of an object, or of a prefix, is read from its bucket, any other from
/// this machine.
#[derive(Debug)]
pub struct Inputs {
    local: Arc<LocalInput>,
    objects: ObjectInput,
}

impl Inputs {
    /// Keeps pins below a state directory; buckets are reached as `reach` says. Nothing is connected yet.
    pub fn new(
        state: impl Into<PathBuf>,
        reach: impl Fn(&Address) -> Settings + Send + Sync + 'static,
        probe: &Arc<dyn CrashProbe>,
    ) -> Self {
        let state = state.into();
        let local = Arc::new(LocalInput::new(&state, Arc::clone(probe)));
        let objects = ObjectInput::new(state, Arc::clone(&local), Box::new(reach), Arc::clone(probe));
        Self { local, objects }
    }

    /// Removes the copies that only the given attempts need, or nobody. Returns their places.
    pub fn sweep(&self, released: &BTreeSet<AttemptId>, dry_run: bool) -> Result<Vec<PathBuf>> {
        let mut removed = self.local.sweep(released, dry_run)?;
        removed.extend(self.objects.sweep(dry_run)?);
        Ok(removed)
    }

    /// Looks at many inputs, within a bound; buckets are not asked.
    pub fn glance(&self, limits: GlanceLimits) -> Glance<'_> {
        Glance::new(&self.local, limits)
    }

    fn of(&self, location: &str) -> &dyn Input {
        if Address::is_one(location) { &self.objects } else { &*self.local }
    }
}

impl Input for Inputs {
    fn version(&self, location: &str) -> Result<String> {
        self.of(location).version(location)
    }

    fn pin(&self, request: &PinRequest) -> Result<PinnedInput> {
        self.of(&request.location).pin(request)
    }

    fn open(&self, pin: &PinnedInput) -> Result<String> {
        self.of(&pin.location).open(pin)
    }

    fn verify(&self, pin: &PinnedInput) -> Result<()> {
        self.of(&pin.location).verify(pin)
    }

    fn release(&self, owner: AttemptId) -> Result<()> {
        self.local.release(owner)
    }
}

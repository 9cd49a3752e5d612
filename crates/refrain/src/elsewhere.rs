//! Pinned paths of a run that a home elsewhere opened: another host, another directory.

use crate::driver::Driver;
use crate::plan::PlannedSource;
use refrain_core::{Input, PinnedInput, Result};

impl Driver<'_> {
    /// Where the command reads a pinned path. The pin as it was read here is added to `read`.
    ///
    /// The home that pinned it keeps the copy. This one takes what it has at its own place for the input if that is the
    /// pinned version to the byte.
    ///
    /// # Errors
    /// `refused` when it is not, and the copy is not here.
    pub(crate) fn open_path(&self, pin: &PinnedInput, read: &mut Vec<PinnedInput>) -> Result<String> {
        let inputs = &self.boundary.inputs;
        let error = match inputs.open(pin) {
            Ok(place) => {
                read.push(pin.clone());
                return Ok(place);
            }
            Err(error) => error,
        };
        let own = self.plan.inputs.iter().find_map(|input| match &input.source {
            PlannedSource::Path { location, .. } if input.name == pin.name => Some(location),
            _ => None,
        });
        let Some(location) = own.filter(|own| **own != pin.location) else { return Err(error) };
        let own = PinnedInput { location: location.clone(), ..pin.clone() };
        match inputs.open(&own) {
            Ok(place) => {
                read.push(own);
                Ok(place)
            }
            Err(_) => Err(error.hint(format!(
                "the run was opened by a home that reads `{}`: bring that file to `{location}`, or repeat the command with \
                 `--rerun`, which opens a new run that pins the input as it is here",
                pin.location
            ))),
        }
    }
}

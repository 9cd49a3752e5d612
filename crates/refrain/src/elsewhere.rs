//! Pinned paths of a run that a home elsewhere opened: another host, another directory.

use crate::boundary::Boundary;
use crate::plan::{Plan, PlannedSource};
use refrain_core::{Input, PinnedInput, Result};

impl Boundary {
    /// Where the command reads a pinned path, and the pin as it is read here.
    ///
    /// The home that pinned it keeps the copy. This one takes what it has at its own place for the input if that is the
    /// pinned version to the byte.
    ///
    /// # Errors
    /// `refused` when it is not, and the copy is not here.
    pub(crate) fn open_path(&self, plan: &Plan, pin: &PinnedInput) -> Result<(String, PinnedInput)> {
        let error = match self.inputs.open(pin) {
            Ok(place) => return Ok((place, pin.clone())),
            Err(error) => error,
        };
        let own = plan.inputs.iter().find_map(|input| match &input.source {
            PlannedSource::Path { location, .. } if input.name == pin.name => Some(location),
            _ => None,
        });
        let Some(location) = own.filter(|own| **own != pin.location) else { return Err(error) };
        let own = PinnedInput { location: location.clone(), ..pin.clone() };
        match self.inputs.open(&own) {
            Ok(place) => Ok((place, own)),
            Err(_) => Err(error.hint(format!(
                "the run was opened by a home that reads `{}`: bring that file to `{location}`, or repeat the command with \
                 `--rerun`, which opens a new run that pins the input as it is here",
                pin.location
            ))),
        }
    }
}

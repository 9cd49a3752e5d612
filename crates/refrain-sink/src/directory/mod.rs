//! The directory sink: one directory, replaced whole.

mod commit;
mod manifest;
mod resolve;
mod staging;
mod walk;

pub(crate) use commit::{copy, layout, switch_link};
pub(crate) use manifest::{holds, measure};
pub(crate) use resolve::{difference, staged_difference};
pub(crate) use staging::seal;
pub(crate) use walk::{Go, walk};

use refrain_core::{Capabilities, SwapCost};

/// What the directory sink promises.
pub(crate) const CAPABILITIES: Capabilities = Capabilities {
    sink: "directory",
    atomic: true,
    conditional: true,
    claims: true,
    ledger_in_commit: false,
    swap_cost: SwapCost::Constant,
    rollback: true,
    keeps_changes: true,
};

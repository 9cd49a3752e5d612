//! The file sink: one file, replaced whole.

mod commit;
mod resolve;
mod staging;

pub(crate) use commit::{copy, switch};
pub(crate) use resolve::{difference, measure};
pub(crate) use staging::seal;

use refrain_core::{Capabilities, SwapCost};

/// What the file sink promises.
pub(crate) const CAPABILITIES: Capabilities = Capabilities {
    sink: "file",
    atomic: true,
    conditional: true,
    claims: true,
    ledger_in_commit: false,
    swap_cost: SwapCost::Constant,
    rollback: true,
    keeps_changes: true,
};

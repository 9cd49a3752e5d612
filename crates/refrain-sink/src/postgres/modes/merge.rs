//! `merge`: rows are inserted or updated by their natural key; equal rows are not touched.

use super::Work;
use crate::postgres::catalog::Target;
use crate::postgres::heads::Applied;
use crate::postgres::manner::Manner;
use refrain_core::{Error, ErrorKind};
use refrain_postgres::{Fault, Transaction};

pub(super) fn preflight(_transaction: &mut Transaction<'_>, _target: &Target, _manner: &Manner) -> Result<(), Fault> {
    Err(Error::new(ErrorKind::Unsupported, "merge").into())
}

pub(super) fn apply(_transaction: &mut Transaction<'_>, _work: &Work<'_>) -> Result<Applied, Fault> {
    Err(Error::new(ErrorKind::Unsupported, "merge").into())
}

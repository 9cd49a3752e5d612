//! `swap-partition`: a partition is built aside and takes the place of the one that is there.

use super::Work;
use crate::postgres::catalog::Target;
use crate::postgres::heads::Applied;
use crate::postgres::manner::Manner;
use refrain_core::{Error, ErrorKind};
use refrain_postgres::{Fault, Relation, Transaction};

pub(super) fn preflight(_transaction: &mut Transaction<'_>, _target: &Target, _manner: &Manner) -> Result<(), Fault> {
    Err(Error::new(ErrorKind::Unsupported, "swap-partition").into())
}

pub(in crate::postgres) fn create(
    _transaction: &mut Transaction<'_>,
    _target: &Target,
    _manner: &Manner,
    _stage: &Relation,
) -> Result<(), Fault> {
    Err(Error::new(ErrorKind::Unsupported, "swap-partition").into())
}

pub(super) fn apply(_transaction: &mut Transaction<'_>, _work: &Work<'_>) -> Result<Applied, Fault> {
    Err(Error::new(ErrorKind::Unsupported, "swap-partition").into())
}

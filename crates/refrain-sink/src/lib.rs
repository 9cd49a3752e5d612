//! Sinks: where publications live.
//!
//! A sink implements [`refrain_core::Sink`]. It keeps a head per slot, changes it in the same step as the data, and
//! calls no store. Here are files and directories on local filesystems ([`LocalSink`]), tables in PostgreSQL
//! ([`PostgresSink`]), objects in buckets ([`ObjectSink`]), and a sink in memory ([`MemorySink`]) for tests.

mod directory;
mod file;
mod local;
mod memory;
mod object;
pub mod postgres;
mod written;

pub use local::{
    LocalKind, LocalSink, ShownKey, claimed_stores, drop_copy, hand_out, prepare_volume, provenance_of, shown_keys,
    state_above, write_whole, written_place,
};
pub use memory::MemorySink;
pub use object::{
    Buckets, Listed, Manifest, ObjectKind, ObjectSink, PrefixManner, Reader, folders as folders_of_objects,
    overlap as objects_overlap,
};
pub use postgres::PostgresSink;

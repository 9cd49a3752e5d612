//! Outputs of every format, made by real writers, and what is said about their differences.

#![allow(clippy::unwrap_used, reason = "a test reports failure by panicking")]

mod broken;
mod damaged;
mod flights;
mod packed;
mod parquet;
mod properties;
mod sqlite;
mod support;
mod tables;
mod texts;
mod trees;

//! Outputs of every format, made by real writers, and what is said about their differences.

mod broken;
mod damaged;
mod packed;
mod parquet;
mod properties;
mod sqlite;
mod support;
mod tables;
mod texts;
mod trees;

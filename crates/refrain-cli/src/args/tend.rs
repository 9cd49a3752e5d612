//! The options of the commands that tend a home: bring a version back, settle, collect, set up.

use super::Partition;
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct RollbackArgs {
    /// The task
    pub(crate) task: String,
    #[command(flatten)]
    pub(crate) partition: Partition,
    /// The version [default: the newest before the one that is shown; after a rollback, before the one that it restored]
    #[arg(long, value_name = "N")]
    pub(crate) to: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct RecoverArgs {
    /// Only this task
    pub(crate) task: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct GcArgs {
    /// Only say what would be removed
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CompactArgs {
    /// Only this task [default: every task of refrain.toml that has dates]
    pub(crate) task: Option<String>,
    /// Forget runs and attempts of the dates before this one
    #[arg(long, value_name = "DATE", allow_hyphen_values = true)]
    pub(crate) before: String,
    /// Only say what would be forgotten
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Make what tables are published with in this database instead of a home: the tables of schema refrain, as it is done on
    /// first use
    #[arg(long, value_name = "URL")]
    pub(crate) sink: Vec<String>,
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum StoreCommand {
    /// Make a new state store in the place of one that is lost
    Init {
        /// The id of the lost store, as the error named it
        #[arg(long, value_name = "STORE_ID")]
        replaces: Vec<String>,
    },
    /// Say that the state store was put back from a backup: all its leases are void
    Restored,
    /// The state store's id and what it replaces
    Show,
    /// Take the history of the home's own state along to a database or a bucket that many hosts share
    ///
    /// Copies keys with their tokens, runs, attempts and watermarks, all of it or nothing; refused while an attempt is
    /// at work, and if there is a history already. The state keeps what it knows, and a note where it was taken along to:
    /// it is refused from then on. `refrain store restored` goes back to it
    Copy {
        /// `sqlite` for the home's own state, or `sqlite:FILE` [default: sqlite]; and `postgresql://USER@HOST/DATABASE`
        /// or `s3://BUCKET/PREFIX/` (`gs://`, `az://`) [default: the store of refrain.toml]
        #[arg(value_name = "FROM TO", num_args = 0..=2)]
        places: Vec<String>,
    },
    /// Say that this home is of the same project as the homes that work with the database already
    ///
    /// A home whose tasks are the same as theirs needs no word. One whose tasks are written differently, and publish at
    /// other places, is refused until this is said
    Join,
    /// Print the SQL that a database administrator runs so that a role may use a state store in a PostgreSQL database
    ///
    /// Tables that tasks publish need more in their database: `refrain sinks --sql ROLE`
    Sql {
        /// The role
        role: String,
    },
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum ConfigCommand {
    /// Print every value that is in force and where it came from
    Show,
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum DocsCommand {
    /// The reference as Markdown, on stdout
    Markdown,
    /// Man pages into a directory
    Man {
        /// The directory
        directory: PathBuf,
    },
}

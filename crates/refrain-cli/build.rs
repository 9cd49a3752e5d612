//! How the program is linked, so that it starts fast: a scheduler may call it every minute for every task, and most of a
//! call that has nothing to do is the loading of the program (docs/PERFORMANCE.md).

#![allow(clippy::print_stdout, reason = "Cargo reads what a build script prints")]

use std::path::{Path, PathBuf};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let setting = |name: &str| std::env::var(name).unwrap_or_default();
    if setting("CARGO_CFG_TARGET_OS") != "linux" || setting("CARGO_CFG_TARGET_ENV") != "gnu" {
        return;
    }
    // At a fixed address nothing has to be relocated: else every page that holds an address (tables of functions, above
    // all) is written to, and so copied, before the program begins.
    println!("cargo:rustc-link-arg-bin=refrain=-no-pie");
    // What a repeat runs lies side by side, for every page that is touched has to be mapped. Written by `cargo xtask
    // order`; the linker's own layout holds for everything else. Rust's own linker and GNU ld read such a script, others
    // refuse it.
    if setting("PROFILE") == "release" && !setting("CARGO_ENCODED_RUSTFLAGS").contains("-fuse-ld=") {
        println!("cargo:rerun-if-changed=often.ld");
        println!("cargo:rustc-link-arg-bin=refrain=-Wl,-T,{}/often.ld", setting("CARGO_MANIFEST_DIR"));
    }
    // The unwinder as part of the program: one shared library less to find, map and bind.
    if setting("TARGET") == setting("HOST")
        && let Some(directory) = unwinder()
    {
        println!("cargo:rustc-link-search=native={}", directory.display());
        println!("cargo:rustc-link-lib=gcc_eh");
    }
}

/// Where the C compiler of this machine has its unwinder as an archive; nothing where there is none.
fn unwinder() -> Option<PathBuf> {
    let within = |directory: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    let machine = std::env::var("CARGO_CFG_TARGET_ARCH").ok()?;
    let of_machine =
        |triple: &PathBuf| triple.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&machine));
    let compilers = within(Path::new("/usr/lib/gcc")).into_iter().filter(of_machine);
    compilers.flat_map(|triple| within(&triple)).find(|version| version.join("libgcc_eh.a").is_file())
}

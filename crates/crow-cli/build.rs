//! Chooses a form of relocations that makes the program 2 MB smaller, where the C library of this machine can load it.
//! `CROW_PORTABLE=1` builds a program for machines with older ones.

#![expect(
    clippy::disallowed_methods,
    reason = "a build script knows its target by the environment, and the C library by a command"
)]

use std::{env, process::Command};

/// First version of the GNU C library that loads packed relocations.
const FIRST_VERSION: (u32, u32) = (2, 36);

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=CROW_PORTABLE");
    if env::var_os("CROW_PORTABLE").is_some() {
        return;
    }
    let target = env::var("TARGET").unwrap_or_default();
    let is_native = env::var("HOST").is_ok_and(|host| host == target);
    if is_native && target.ends_with("-linux-gnu") && version_of_libc() >= Some(FIRST_VERSION) {
        // Linkers that do not know the word warn, and go on without it.
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Returns the version of the C library of this machine.
fn version_of_libc() -> Option<(u32, u32)> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}

//! Linux: namespaces, Landlock and seccomp.

mod child;
mod confinement;
mod files;
mod filter;
mod ground;
mod init;
mod instructions;
mod keeper;
mod namespaces;
mod places;
mod plan;
mod report;
mod rights;
mod steps;

pub(super) use confinement::Confinement;
pub(super) use ground::Ground;

//! Resource limits and capabilities of a command. Runs between fork and exec: allocates nothing.

use rustix::{
    process::{Resource, Rlimit},
    thread::{CapabilitySet, CapabilitySets},
};

use crate::sandbox::ProcessLimits;

/// Capabilities that a command run as root keeps. `CAP_FSETID` is not among them, which preserves set-ID
/// bits while a file is written: so a file created with such bits loses them with its first content.
const CAPABILITIES: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::NET_BIND_SERVICE);
/// Upper bound of capability numbers.
const CAPABILITY_COUNT: u32 = 64;

/// Limits processes, memory and core files of this process and its children.
pub(super) fn limit(limits: ProcessLimits) -> rustix::io::Result<()> {
    let exactly = |value| Rlimit { current: Some(value), maximum: Some(value) };
    rustix::process::setrlimit(Resource::Core, exactly(0))?;
    for (resource, wanted) in [(Resource::Nproc, limits.processes), (Resource::Data, limits.memory)]
    {
        // Lower limits set by the user stay.
        let now = rustix::process::getrlimit(resource);
        let bound = now.maximum.map_or(wanted, |maximum| maximum.min(wanted));
        rustix::process::setrlimit(resource, exactly(bound))?;
    }
    Ok(())
}

/// Removes capabilities from the bounding set, so that no program started later can get them, neither as
/// root nor by file capabilities.
pub(super) fn drop_bounds() -> rustix::io::Result<()> {
    if !rustix::thread::capabilities(None)?.permitted.contains(CapabilitySet::SETPCAP) {
        return Ok(());
    }
    for number in 0..CAPABILITY_COUNT {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        if !CAPABILITIES.contains(capability)
            && rustix::thread::remove_capability_from_bounding_set(capability).is_err()
        {
            // The kernel knows no further capabilities.
            break;
        }
    }
    Ok(())
}

/// Drops all capabilities but those that root needs for files and processes.
pub(super) fn drop_capabilities() -> rustix::io::Result<()> {
    let retained = rustix::thread::capabilities(None)?.permitted & CAPABILITIES;
    let sets = CapabilitySets {
        effective: retained,
        permitted: retained,
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, sets)
}

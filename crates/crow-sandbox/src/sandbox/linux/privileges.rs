//! What a command may do beyond files and system calls. Runs between fork and exec: allocates nothing.

use rustix::{
    process::{Resource, Rlimit},
    thread::{CapabilitySet, CapabilitySets},
};

use crate::sandbox::ProcessLimits;

/// What the command may do as far as it is root. Not among it is what keeps the bits by which a file runs with its owner's
/// rights while it is written to: so a file that was made with them is without them as soon as it holds anything.
const CAPABILITIES: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::NET_BIND_SERVICE);
/// How many capabilities may exist.
const CAPABILITY_COUNT: u32 = 64;

/// Bounds this process and what it starts.
pub(super) fn limit(limits: ProcessLimits) -> rustix::io::Result<()> {
    let exactly = |value| Rlimit { current: Some(value), maximum: Some(value) };
    rustix::process::setrlimit(Resource::Core, exactly(0))?;
    for (resource, wanted) in [(Resource::Nproc, limits.processes), (Resource::Data, limits.memory)]
    {
        // What the user has set lower stays.
        let now = rustix::process::getrlimit(resource);
        let bound = now.maximum.map_or(wanted, |maximum| maximum.min(wanted));
        rustix::process::setrlimit(resource, exactly(bound))?;
    }
    Ok(())
}

/// Gives up for good what no program may have that is started from now on, root's and those with rights of their own
/// included.
pub(super) fn drop_bounds() -> rustix::io::Result<()> {
    if !rustix::thread::capabilities(None)?.permitted.contains(CapabilitySet::SETPCAP) {
        return Ok(());
    }
    for number in 0..CAPABILITY_COUNT {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        if !CAPABILITIES.contains(capability)
            && rustix::thread::remove_capability_from_bounding_set(capability).is_err()
        {
            // The kernel knows no more of them.
            break;
        }
    }
    Ok(())
}

/// Gives up what root could do beyond files of its own.
pub(super) fn drop_capabilities() -> rustix::io::Result<()> {
    let kept = rustix::thread::capabilities(None)?.permitted & CAPABILITIES;
    let sets =
        CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets)
}

//! What the process does to itself before anything else, so that what it starts cannot read its keys.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Keeps other processes of the same user out of the process's memory and environment, and core dumps from the disk.
///
/// What is started later is not bound by this: it may be traced and dumped as any other program, but for its core file,
/// which it may ask for again.
pub(crate) fn keep_keys_from_children() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};

        // Where the kernel does not know this, there is nothing that could be done instead.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
    let maximum = getrlimit(Resource::Core).maximum;
    // It can always be lowered.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum });
}

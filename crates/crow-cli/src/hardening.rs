//! Hardening of the process at its start, so that its children cannot read its keys.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Prevents other processes of the same user from reading the process's memory and environment, and disables core
/// dumps.
///
/// Processes that it starts are not restricted: they can be traced and dumped like any program. Only the core limit is
/// inherited; they may raise it again.
pub(crate) fn restrict_process_inspection() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};

        // There is no alternative if the kernel does not support this.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
    let maximum = getrlimit(Resource::Core).maximum;
    // Lowering a limit is always permitted.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum });
}

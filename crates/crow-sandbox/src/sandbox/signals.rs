//! Signals that whoever started the program ignored.

/// Lets SIGINT, SIGQUIT and SIGTERM end this process and what it starts, where whoever started it ignored them: shells
/// without job control and some build services do so. SIGHUP stays ignored, as `nohup` wants it. Handlers stay.
///
/// It is for a program to decide, which calls this at its start. Commands in a sandbox never ignore these signals. Does
/// nothing where the system is not Linux.
pub fn reset_ignored_signals() {
    #[cfg(target_os = "linux")]
    super::linux::reset_ignored_signals();
}

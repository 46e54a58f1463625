//! Signals that the program's launcher set to be ignored.

/// Lets SIGINT, SIGQUIT and SIGTERM end this process and its children again, if its launcher had them
/// ignored: shells without job control and some build services do that. SIGHUP stays ignored, as `nohup`
/// wants it. Handlers stay.
///
/// A program decides this by calling it at its start. Commands in a sandbox never ignore these signals.
/// Does nothing on systems other than Linux.
pub fn reset_ignored_signals() {
    #[cfg(target_os = "linux")]
    super::linux::reset_ignored_signals();
}

//! Messages for the user about files that the sandbox moved aside or put back, also of sessions that were killed.

use std::path::PathBuf;

use crow_core::capability::{OriginalState, QuarantinedFile};
use crow_sandbox::RecoveryReport;

/// Maximum number of paths in a message.
const SHOWN_PATHS: usize = 8;

/// Describes for the user what a recovery did, and what it left.
pub(crate) fn recovery_messages(report: &RecoveryReport) -> Vec<String> {
    let moved = |moved| describe_moved("while a command of a session ran that was killed", moved);
    let mut messages: Vec<_> = report.repaired.iter().map(moved).collect();
    if !report.changed_later.is_empty() {
        messages.push(describe_changed_later(&report.changed_later));
    }
    if !report.not_found.is_empty() {
        messages.push(describe_not_found(&report.not_found));
    }
    messages
}

/// Names files that start programs and changed after a session was killed, most likely by the user.
fn describe_changed_later(paths: &[PathBuf]) -> String {
    let mut names: Vec<_> =
        paths.iter().take(SHOWN_PATHS).map(|path| path.display().to_string()).collect();
    if let Some(rest) = paths.len().checked_sub(SHOWN_PATHS).filter(|rest| *rest > 0) {
        names.push(format!("{rest} more"));
    }
    let names = names.join(", ");
    format!(
        "A session was killed while a command ran. These files, which git, an editor or an agent would run or obey, changed after it: {names}. They were left as they are; if you did not change them, look at them first."
    )
}

/// Names the roots of a killed session that were not found.
fn describe_not_found(roots: &[PathBuf]) -> String {
    let names: Vec<_> = roots.iter().map(|root| root.display().to_string()).collect();
    let names = names.join(", ");
    format!(
        "A session was killed while a command ran in {names}, which was moved, removed or replaced since. What the command left there was not put back. If you moved it, start crow-agent in its new place, which puts it back; if you copied it, look first at the files that git, an editor or an agent would run or obey."
    )
}

/// Describes what was moved aside or put back, and where it is.
pub(crate) fn describe_moved(when: &str, moved: &QuarantinedFile) -> String {
    let path = moved.path.display();
    let kept = moved.moved_to.as_ref().map(|kept| kept.display());
    match (moved.original, kept) {
        (OriginalState::Absent, Some(kept)) => format!(
            "{path} appeared {when}, and can start programs: it was moved to {kept}; if you made it yourself, move it back"
        ),
        (OriginalState::Absent, None) => format!(
            "{path} appeared {when}, and can start programs; it could not be moved away: look at it before you go on"
        ),
        (OriginalState::Restored, Some(kept)) => format!(
            "{path} was changed {when}, and can start programs: it was restored; the changed version is in {kept}; if you changed it yourself, take it from there"
        ),
        (OriginalState::Restored, None) => {
            format!("{path} was changed {when}, and can start programs: it was restored")
        }
        (OriginalState::Disarmed, kept) => {
            let kept = kept.map(|kept| {
                format!(
                    "; the version with them is in {kept}; if you wrote them yourself, take it from there"
                )
            });
            format!(
                "{path} was changed {when}, and named programs to start: these were taken out{}",
                kept.unwrap_or_default()
            )
        }
        (OriginalState::Lost, _) => format!(
            "{path} was changed {when}, and can start programs; it could not be put back: look at it before you go on"
        ),
    }
}

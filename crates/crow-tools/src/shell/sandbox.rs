//! The parts of a result that concern the sandbox.

use crow_core::{
    capability::{
        Containment, HostRefusal, OriginalState, ProcessEnd, ProcessOutcome, QuarantinedFile,
        RefusedHost,
    },
    tool::ToolContext,
};
use serde_json::{Map, Value, json};

use crate::paths::display_path;

/// Messages of commands that the sandbox may have blocked.
const SIGNS: [&str; 9] = [
    "Permission denied",
    "Operation not permitted",
    "Read-only file system",
    "Network is unreachable",
    "Could not resolve host",
    "Temporary failure in name resolution",
    "Device or resource busy",
    "getaddrinfo",
    "dns error",
];
const HINT: &str = "\n[if the sandbox caused this: commands can change only files of the project and of /tmp, not those \
     that start programs (.git/hooks, .git/config, settings of editors, agents and CI) or are hidden (keys, Crow's own), \
     and reach no network but their own loopback; tell the user what you need]";
/// Text on how protected files can be changed.
const ASKED: &str = "write_file may change it if the user allows the call";
/// Most refused hosts that are named.
const MOST_HOSTS: usize = 5;

/// Adds what the model and readers of the result must know of the sandbox. Returns an error if the command made or
/// changed a protected file.
pub(super) fn append_sandbox_notes(
    outcome: &ProcessOutcome,
    output: &mut String,
    extra: &mut Map<String, Value>,
    ctx: &ToolContext,
) -> Option<String> {
    if !outcome.containment.has_any_layer() {
        return None;
    }
    extra.insert(Containment::EXTRA_KEY.to_owned(), json!(outcome.containment));
    let has_failed = outcome.end != ProcessEnd::Exited(0);
    if has_failed && SIGNS.iter().any(|sign| output.contains(sign)) {
        output.push_str(HINT);
    }
    append_refusals(&outcome.refused_hosts, &outcome.quarantined, output, ctx);
    // A file that was found while other commands ran may be theirs, or the user's.
    let first = outcome.quarantined.iter().find(|aside| aside.running_commands.len() <= 1)?;
    let did = match first.original {
        OriginalState::Absent => "made",
        OriginalState::Restored | OriginalState::Disarmed | OriginalState::Lost => "changed",
    };
    Some(format!("it {did} {}, which is protected", display_path(&first.path, ctx)))
}

/// Adds the hosts that were out of reach, and the files that were moved away.
pub(super) fn append_refusals(
    refused_hosts: &[RefusedHost],
    put_aside: &[QuarantinedFile],
    output: &mut String,
    ctx: &ToolContext,
) {
    for host in refused_hosts.iter().take(MOST_HOSTS) {
        output.push_str(&host_note(host));
    }
    for aside in put_aside {
        output.push_str(&file_note(aside, ctx));
    }
}

fn file_note(aside: &QuarantinedFile, ctx: &ToolContext) -> String {
    let QuarantinedFile { path, moved_to: kept, original, running_commands: during } = aside;
    let mut path = display_path(path, ctx);
    if during.len() > 1 {
        let lines: Vec<String> = during.iter().map(|line| format!("`{line}`")).collect();
        path = format!("{path} appeared or was changed while these ran: {}. It", lines.join(", "));
    }
    match (original, kept) {
        (OriginalState::Absent, Some(kept)) => format!(
            "\n[{path} can start programs, so the sandbox moved it away, to {}; {ASKED}]",
            kept.display()
        ),
        (OriginalState::Absent, None) => format!(
            "\n[{path} can start programs and should not be there; it could not be moved away]"
        ),
        (OriginalState::Restored, kept) => {
            let kept = kept.as_ref();
            let kept = kept.map(|kept| format!("; the changed version is in {}", kept.display()));
            format!(
                "\n[{path} can start programs, so the sandbox put it back as it was{}; {ASKED}]",
                kept.unwrap_or_default()
            )
        }
        (OriginalState::Disarmed, kept) => {
            let kept = kept.as_ref();
            let kept = kept.map(|kept| format!("; the version with them is in {}", kept.display()));
            format!(
                "\n[{path} named programs to start later, so the sandbox took these out{}; {ASKED}]",
                kept.unwrap_or_default()
            )
        }
        (OriginalState::Lost, _) => {
            format!("\n[{path} can start programs and was changed; it could not be put back]")
        }
    }
}

fn host_note(refused: &RefusedHost) -> String {
    let pattern = refused.pattern();
    match refused.reason {
        HostRefusal::NotAllowed => {
            format!(
                "\n[the sandbox blocked the connection to {refused}; the user can allow it with --allow-host {pattern}]"
            )
        }
        HostRefusal::NotPublic => {
            format!(
                "\n[the sandbox blocked the connection to {refused}: the name resolves to a local address]"
            )
        }
    }
}

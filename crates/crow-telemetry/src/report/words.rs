//! Numbers and names as words.

use std::time::Duration;

use crow_core::{ending::EndKind, event::Verdict};
use jiff::{Timestamp, tz::TimeZone};

/// Formats a moment with its date.
pub(super) fn time(time: Timestamp, zone: &TimeZone) -> String {
    time.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// Formats the time of day of a moment.
pub(super) fn clock(time: Timestamp, zone: &TimeZone) -> String {
    time.to_zoned(zone.clone()).strftime("%H:%M:%S").to_string()
}

/// Formats a duration: `12 ms`, `1.2 s`, `2 min 5 s`, `1 h 2 min`.
pub(super) fn duration(duration: Duration) -> String {
    let (seconds, millis) = (duration.as_secs(), duration.subsec_millis());
    match seconds {
        0 => format!("{millis} ms"),
        1..60 => format!("{seconds}.{} s", millis / 100),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// Formats a number with commas between thousands.
pub(super) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Says what was answered to a question about a call, by the name of the answer.
pub(super) fn permission_answer(name: &str) -> &str {
    match name {
        "allow_once" => "allowed once",
        "allow_session" => "allowed for the session",
        "deny" => "denied",
        "nobody" => "nobody was there to answer",
        other => other,
    }
}

pub(super) fn verdict(verdict: Verdict) -> String {
    match verdict {
        Verdict::Approved => "approved",
        Verdict::Rejected => "rejected",
        Verdict::Unfinished => "not finished",
    }
    .to_owned()
}

pub(super) fn end_kind(kind: EndKind) -> &'static str {
    match kind {
        EndKind::Done => "done",
        EndKind::Answered => "answered",
        EndKind::Stopped => "stopped before it was done",
    }
}

//! Times of the last change of an inode, and the rule for when they prove that a file is unchanged.

use std::time::{SystemTime, UNIX_EPOCH};

/// Nanoseconds within which a file system may give two changes the same time: more than a tick of any kernel.
const TICK: i64 = 100_000_000;
/// The same for a file system that keeps whole seconds only.
const COARSE_TICK: i64 = 2_000_000_000;
const SECOND: i64 = 1_000_000_000;

/// Returns the nanoseconds from 1970 to a point in time.
pub fn since_1970(moment: SystemTime) -> i64 {
    let since = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// Returns the nanoseconds from 1970 to a time of the file system, given as seconds and nanoseconds.
pub fn nanoseconds((seconds, nanoseconds): (i64, i64)) -> i64 {
    seconds.saturating_mul(SECOND).saturating_add(nanoseconds)
}

/// Returns whether a change after the start of a scan would show in the change time. Both are nanoseconds since 1970.
pub fn is_settled(changed: i64, started: i64) -> bool {
    let tick = if changed % SECOND == 0 { COARSE_TICK } else { TICK };
    changed < started.saturating_sub(tick)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_as_new_as_the_scan_proves_nothing() {
        let now = 1_000 * SECOND + 1;
        for (changed, settled) in [
            (now + SECOND / 2, false),
            (now, false),
            (now - TICK, false),
            (now - TICK - 1, true),
            // A time in whole seconds is from a file system without finer times.
            (999 * SECOND, false),
            (998 * SECOND, true),
        ] {
            assert_eq!(is_settled(changed, now), settled, "{changed}");
        }
    }
}

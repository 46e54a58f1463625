//! Formats numbers for people.

use std::time::Duration;

/// Formats a duration: `12 ms`, `1.2 s`, `2 min 5 s`, `1 h 2 min`.
pub fn duration(duration: Duration) -> String {
    let (seconds, millis) = (duration.as_secs(), duration.subsec_millis());
    match seconds {
        0 => format!("{millis} ms"),
        1..60 => format!("{seconds}.{} s", millis / 100),
        _ => whole_seconds(seconds),
    }
}

/// Formats an elapsed time without fractions: `3 s`, `2 min 5 s`, `1 h 2 min`.
pub fn whole_seconds(seconds: u64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{minutes} min {} s", seconds % 60),
        _ => format!("{hours} h {} min", minutes % 60),
    }
}

/// Formats a number of tokens: `950`, `12.3k`, `1.2M`.
pub fn tokens(count: u64) -> String {
    match count {
        0..1000 => count.to_string(),
        1000..1_000_000 => format!("{}.{}k", count / 1000, count % 1000 / 100),
        _ => format!("{}.{}M", count / 1_000_000, count % 1_000_000 / 100_000),
    }
}

/// Formats US dollars: four decimals below $0.1, else two.
pub fn dollars(amount: f64) -> String {
    if amount < 0.1 { format!("${amount:.4}") } else { format!("${amount:.2}") }
}

/// Formats a count with its noun, to which it adds `s` for the plural.
pub fn count(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_the_unit_that_fits() {
        let table = [
            (0, "0 ms"),
            (12, "12 ms"),
            (1250, "1.2 s"),
            (59_999, "59.9 s"),
            (125_000, "2 min 5 s"),
            (3_725_000, "1 h 2 min"),
        ];
        for (millis, expected) in table {
            assert_eq!(duration(Duration::from_millis(millis)), expected);
        }
    }

    #[test]
    fn tokens_and_dollars_are_short() {
        assert_eq!([tokens(950), tokens(12_345), tokens(1_250_000)], ["950", "12.3k", "1.2M"]);
        assert_eq!([dollars(0.0123), dollars(1.5)], ["$0.0123", "$1.50"]);
        assert_eq!([count(1, "step"), count(2, "step")], ["1 step", "2 steps"]);
    }
}

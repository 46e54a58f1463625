//! Parsing of the delay that a provider requests before the next attempt.

use std::time::Duration;

use jiff::{Timestamp, fmt::rfc2822};
use reqwest::header::{HeaderMap, RETRY_AFTER};

/// Maximum delay. Longer ones are cut to it: they are as good as endless.
const LONGEST: Duration = Duration::from_hours(7 * 24);

/// Parses `retry-after-ms` and `retry-after`: seconds or a date.
pub(super) fn from_headers(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(milliseconds) = text("retry-after-ms").and_then(|text| text.parse().ok()) {
        return seconds(milliseconds, 0.001);
    }
    let value = text(RETRY_AFTER.as_str())?;
    let wait = value.parse().map_or_else(|_| until(value, now), |number| seconds(number, 1.0));
    wait.map(|wait| wait.min(LONGEST))
}

fn until(date: &str, now: Timestamp) -> Option<Duration> {
    let then = rfc2822::DateTimeParser::new().parse_timestamp(date).ok()?;
    // A date in the past means no delay.
    Some(Duration::try_from(then.duration_since(now)).unwrap_or_default())
}

/// Finds "try again in 1m2.5s" or "retry in 300ms" in a message.
pub(super) fn from_message(message: &str) -> Option<Duration> {
    let folded = message.to_ascii_lowercase();
    let (_, rest) =
        folded.split_once("try again in ").or_else(|| folded.split_once("retry in "))?;
    span(rest)
}

/// Parses a span such as `1m2.5s`, `300ms`, `32s` or `7 seconds`.
pub(super) fn span(text: &str) -> Option<Duration> {
    let mut total = None;
    let mut rest = text;
    loop {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at_checked(digits)?;
        let Ok(number) = number.trim_end_matches('.').parse::<f64>() else { break };
        let tail = tail.trim_start();
        let letters = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at_checked(letters)?;
        let factor = match unit {
            "ms" => 0.001,
            "s" | "sec" | "second" | "seconds" => 1.0,
            "m" | "min" | "minute" | "minutes" => 60.0,
            "h" | "hour" | "hours" => 3600.0,
            _ => break,
        };
        total = Some(total.unwrap_or(Duration::ZERO) + seconds(number, factor)?);
        rest = tail;
    }
    total.map(|wait: Duration| wait.min(LONGEST))
}

fn seconds(number: f64, factor: f64) -> Option<Duration> {
    Duration::try_from_secs_f64((number * factor).min(LONGEST.as_secs_f64())).ok()
}

/// Formats the requested delay and its end, for a request that is given up.
pub(crate) fn in_words(wait: Duration, now: Timestamp) -> String {
    let minutes = wait.as_secs().div_ceil(60);
    let span = match minutes {
        0 | 1 => format!("{} s", wait.as_secs_f64().ceil()),
        2..60 => format!("{minutes} min"),
        _ => format!("{} h {} min", minutes / 60, minutes % 60),
    };
    match now.checked_add(wait) {
        Ok(then) => {
            format!("it asks for a wait of {span}, until {}", then.strftime("%Y-%m-%d %H:%M UTC"))
        }
        Err(_) => format!("it asks for a wait of {span}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_read_from_headers() {
        let now: Timestamp = "2026-11-21T10:00:00Z".parse().unwrap();
        for (name, value, expected) in [
            ("retry-after", "2", Some(2000)),
            ("retry-after", "0.5", Some(500)),
            ("retry-after", "Sat, 21 Nov 2026 10:00:30 GMT", Some(30_000)),
            ("retry-after", "Sat, 21 Nov 2026 09:00:00 GMT", Some(0)),
            ("retry-after", "-1", None),
            ("retry-after", "soon", None),
            ("retry-after", "inf", Some(604_800_000)),
            ("retry-after-ms", "1500", Some(1500)),
            ("x-other", "5", None),
        ] {
            let headers = HeaderMap::from_iter([(name.parse().unwrap(), value.parse().unwrap())]);
            let expected = expected.map(Duration::from_millis);
            assert_eq!(from_headers(&headers, now), expected, "{name}: {value}");
        }
    }

    #[test]
    fn milliseconds_take_precedence_over_seconds() {
        let headers = HeaderMap::from_iter([
            ("retry-after".parse().unwrap(), "2".parse().unwrap()),
            ("retry-after-ms".parse().unwrap(), "1250".parse().unwrap()),
        ]);
        assert_eq!(
            from_headers(&headers, Timestamp::UNIX_EPOCH),
            Some(Duration::from_millis(1250))
        );
    }

    #[test]
    fn a_wait_is_formatted_with_its_end() {
        let now: Timestamp = "2026-11-21T23:30:10Z".parse().unwrap();
        for (wait, expected) in [
            (Duration::from_millis(1500), "2 s, until 2026-11-21 23:30 UTC"),
            (Duration::from_mins(10), "10 min, until 2026-11-21 23:40 UTC"),
            (Duration::from_hours(1), "1 h 0 min, until 2026-11-22 00:30 UTC"),
        ] {
            assert_eq!(in_words(wait, now), format!("it asks for a wait of {expected}"));
        }
    }

    #[test]
    fn waits_are_read_from_messages() {
        for (message, expected) in [
            ("Rate limit reached. Please try again in 1.5s. Visit", Some(1500)),
            ("Please try again in 20ms.", Some(20)),
            ("try again in 6m0s", Some(360_000)),
            ("Please retry in 41.25s.", Some(41_250)),
            ("Try again in 7 seconds", Some(7000)),
            ("please try again in a while", None),
            ("no", None),
        ] {
            assert_eq!(from_message(message), expected.map(Duration::from_millis), "{message}");
        }
    }
}

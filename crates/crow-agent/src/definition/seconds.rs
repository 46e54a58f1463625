//! A span of time in the form in which people write it.

use std::{borrow::Cow, fmt, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de::Visitor};

/// A span of time: seconds, or a text such as "90s", "30m" or "2h".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seconds(pub u64);

impl From<Seconds> for Duration {
    fn from(seconds: Seconds) -> Self {
        Self::from_secs(seconds.0)
    }
}

impl JsonSchema for Seconds {
    fn schema_name() -> Cow<'static, str> {
        "Seconds".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Seconds, or a text such as \"90s\", \"30m\" or \"2h\".",
            "type": ["integer", "string"]
        })
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SecondsOrText)
    }
}

struct SecondsOrText;

impl Visitor<'_> for SecondsOrText {
    type Value = Seconds;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("seconds, or a text such as \"90s\", \"30m\" or \"2h\"")
    }

    fn visit_i64<E: serde::de::Error>(self, seconds: i64) -> Result<Seconds, E> {
        match u64::try_from(seconds) {
            Ok(seconds) if seconds > 0 => Ok(Seconds(seconds)),
            _ => Err(E::custom("0 is not possible here; leave the key out instead")),
        }
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Seconds, E> {
        parse(text).map(Seconds).ok_or_else(|| {
            E::custom(format!("\"{text}\" is not a duration; write \"90s\", \"30m\" or \"2h\""))
        })
    }
}

fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.get(number.len()..)? {
        "s" | "" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        _ => return None,
    };
    number.trim().parse::<u64>().ok()?.checked_mul(unit).filter(|seconds| *seconds > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_with_and_without_unit() {
        for (text, expected) in [
            ("90s", Some(90)),
            ("30m", Some(1800)),
            ("30 min", Some(1800)),
            ("2h", Some(7200)),
            ("5", Some(5)),
            ("0s", None),
            ("2d", None),
            ("-1s", None),
            ("h", None),
            ("99999999999999999999h", None),
            ("9999999999999999999h", None),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
    }
}

//! Numbers in their shortest decimal form.

use serde_json::{Value, json};

/// Returns the number with its shortest decimal form, because 0.7 as `f32` is not 0.7 as `f64`.
pub(super) fn decimal(number: f32) -> Value {
    json!(number.to_string().parse::<f64>().unwrap_or_else(|_| f64::from(number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temperature_is_sent_as_it_was_written() {
        for (number, expected) in [(0.7, "0.7"), (0.0, "0.0"), (1.0, "1.0"), (0.15, "0.15")] {
            assert_eq!(decimal(number).to_string(), expected);
        }
    }
}

//! Shell lines of any bytes.
#![no_main]

#[path = "../properties.rs"]
#[expect(dead_code, reason = "each target has one of the properties")]
mod properties;

libfuzzer_sys::fuzz_target!(|data: &[u8]| properties::shell_line(data));

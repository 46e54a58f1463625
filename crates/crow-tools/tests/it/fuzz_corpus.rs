//! Replays the fuzzer's corpus and findings without the fuzzer.

use std::{fs, path::Path};

#[path = "../../../../fuzz/properties.rs"]
mod properties;

fn replay(target: &str, property: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        property(&fs::read(entry.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count > 5, "{count} files");
}

#[test]
fn the_fuzzers_shell_lines_satisfy_the_properties() {
    replay("shell_line", properties::shell_line);
}

#[test]
fn the_fuzzers_rule_files_satisfy_the_properties() {
    replay("rule_file", properties::rule_file);
}

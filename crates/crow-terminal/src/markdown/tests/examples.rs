//! The examples of the `CommonMark` specification and of the tests of pulldown-cmark.
//!
//! The specification is under CC BY-SA 4.0, so its examples are not copied here. They are read from the source package of
//! pulldown-cmark, a dependency, where cargo has unpacked it.

use std::{fs, path::PathBuf, process::Command};

/// A text of Markdown and where it comes from.
#[derive(Debug)]
pub(super) struct Example {
    pub(super) name: String,
    pub(super) text: String,
}

/// Returns the examples of the specification.
pub(super) fn specification() -> Vec<Example> {
    let examples = of_suite("spec");
    assert!(examples.len() >= 652, "all examples of the specification");
    examples
}

/// Returns the examples of all suites, of extensions that are switched off too.
pub(super) fn all() -> Vec<Example> {
    let names = [
        "spec",
        "regression",
        "table",
        "gfm_table",
        "gfm_tasklist",
        "gfm_strikethrough",
        "strikethrough",
        "footnotes",
        "old_footnotes",
        "blockquotes_tags",
        "definition_lists",
        "heading_attrs",
        "math",
        "metadata_blocks",
        "smart_punct",
        "super_sub",
        "wikilinks",
    ];
    names.into_iter().flat_map(of_suite).collect()
}

fn of_suite(suite: &str) -> Vec<Example> {
    let source = fs::read_to_string(suites().join(format!("{suite}.rs"))).unwrap();
    let texts = source.split("let original = r##\"").skip(1);
    let text = |text: &str| text.split_once("\"##").unwrap().0.to_owned();
    let example =
        |(index, rest)| Example { name: format!("{suite} {}", index + 1), text: text(rest) };
    texts.enumerate().map(example).collect()
}

/// Returns the folder of the suites. Only packages of this platform are asked for: those of others need not be downloaded.
fn suites() -> PathBuf {
    let platform = output_of("rustc", &["--print", "host-tuple"]);
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let metadata = output_of(
        env!("CARGO"),
        &[
            "metadata",
            "--format-version=1",
            "--offline",
            "--manifest-path",
            manifest,
            "--filter-platform",
            platform.trim(),
        ],
    );
    let path = metadata
        .split("\"manifest_path\":\"")
        .filter_map(|rest| rest.split_once('"'))
        .map(|(path, _)| PathBuf::from(path.replace("\\\\", "\\")))
        .find(|path| {
            path.parent()
                .and_then(|package| package.file_name())
                .is_some_and(|name| name.to_string_lossy().starts_with("pulldown-cmark-0."))
        })
        .unwrap();
    path.with_file_name("tests").join("suite")
}

#[expect(clippy::disallowed_methods, reason = "cargo says where it unpacked the package")]
fn output_of(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

//! Text with control sequences, or with characters that hide or reorder text in a terminal.

use serde_json::json;

use crate::{attack::Attack, trial_runner::try_all};

/// Character sequences that a terminal obeys, hides or reorders: name and text.
const TRICKS: [(&str, &str); 14] = [
    ("a title", "\u{1b}]0;owned\u{7}"),
    ("the clipboard", "\u{1b}]52;c;cHduZWQ=\u{7}"),
    ("a link", "\u{1b}]8;;http://evil.invalid\u{1b}\\here\u{1b}]8;;\u{1b}\\"),
    ("cleared screen", "\u{1b}[2J\u{1b}[H"),
    ("cursor up", "\u{1b}[1A\u{1b}[2K"),
    ("a C1 sequence", "\u{9b}2J"),
    ("a C1 string", "\u{9d}0;owned\u{9c}"),
    ("mouse", "\u{1b}[?1003h"),
    ("a carriage return", "bad\rgood"),
    ("a backspace", "bad\u{8}\u{8}\u{8}good"),
    ("right to left", "\u{202e}txt.exe\u{202c}"),
    ("isolates", "\u{2066}x\u{2069}\u{2067}y"),
    ("invisible characters", "a\u{200b}b\u{2060}c\u{feff}d"),
    ("tags", "x\u{e0041}\u{e0042}"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn control_characters_from_the_project_are_never_printed_raw() {
    let name = |trick: &str| trick.replace('/', "-");
    let cases = TRICKS.iter().flat_map(|(trick_name, trick)| {
        let attack = |source: &str, output: &str| {
            let attack = Attack::new(format!("{trick_name} in {source} as {output}"), "accept-edits");
            if output == "text" { attack.text() } else { attack }
        };
        let mut cases = Vec::new();
        for output in ["text", "json"] {
            cases.push(
                attack("a file that is read", output).file("a.txt", &format!("one\n{trick}\ntwo\n")).call("read_file", json!({"path": "a.txt"})),
            );
            cases.push(
                attack("names", output)
                    .file(&format!("d/x{}", name(trick)), "x\n")
                    .call("list_directory", json!({"path": "."}))
                    .call("write_file", json!({"path": format!("d/y{}", name(trick)), "content": trick}))
                    .call("grep", json!({"pattern": "x"})),
            );
            cases.push(attack("a refused command", output).line(&format!("touch pwned # {trick}")));
            cases.push(
                attack("instructions and rules", output)
                    .file("AGENTS.md", &format!("Use tabs {trick}\n"))
                    .file(".crow-agent/permissions.json", &json!({"version": 1, "rules": [{"id": trick, "matcher": "all", "decision": trick}]}).to_string())
                    .file(&format!(".crow-agent/providers/{}.toml", name(trick)), trick),
            );
        }
        cases
    });
    try_all(cases.collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn control_characters_from_command_output_are_never_printed_raw() {
    if !crate::trial_runner::has_full_sandbox("output of commands") {
        return;
    }
    let cases = TRICKS.iter().flat_map(|(trick_name, trick)| {
        let quoted =
            trick.bytes().map(|byte| format!("\\x{byte:02x}")).collect::<Vec<_>>().concat();
        let line =
            format!("printf '{quoted}'; printf '{quoted}' >&2; mkdir $'d{quoted}' 2>/dev/null");
        let attack = Attack::confined(format!("{trick_name} from a command"), &line);
        [
            attack.clone(),
            Attack::new(format!("{trick_name} from a command as text"), "full-auto")
                .line(&line)
                .text(),
        ]
    });
    try_all(cases.collect()).await;
}

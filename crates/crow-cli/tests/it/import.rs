//! `crow-agent import`.

use std::fs;

use crate::program::Fixture;

/// Writes a file below the home.
fn write(fixture: &Fixture, path: &str, text: &str) {
    let path = fixture.home(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[tokio::test]
async fn an_import_is_shown_first_and_written_on_request() {
    let fixture = Fixture::new();
    write(
        &fixture,
        ".codex/config.toml",
        "model = \"x\"\n[mcp_servers.docs]\ncommand = \"docs\"\n",
    );
    write(&fixture, ".codex/prompts/ticket.md", "Write a ticket about $1.");
    let shown = fixture.run(&["import", "--from", "codex"]).await;
    let shown = shown.exited(0);
    assert!(shown.out.contains("+ MCP server docs\n"), "{}", shown.out);
    assert!(shown.out.contains("+ command ticket\n"), "{}", shown.out);
    assert!(shown.out.contains("choose a model with `crow-agent models`"), "{}", shown.out);
    assert!(shown.err.contains("2 things; nothing was written"), "{}", shown.err);
    let listed = fixture.run(&["mcp", "list"]).await;
    assert!(!listed.exited(0).out.contains("docs"), "{}", listed.out);
    let applied = fixture.run(&["import", "--from", "codex", "--apply"]).await;
    assert!(applied.exited(0).err.contains("2 things written"), "{}", applied.err);
    let listed = fixture.run(&["mcp", "list"]).await;
    assert!(listed.exited(0).out.contains("docs"), "{}", listed.out);
    let again = fixture.run(&["import", "--from", "codex", "-o", "json"]).await;
    let lines = again.exited(0).out.lines().map(|line| serde_json::from_str(line).unwrap());
    let states: Vec<String> = lines
        .filter_map(|line: serde_json::Value| line["state"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(states, ["other", "present"]);
}

#[tokio::test]
async fn an_import_without_anything_to_import_says_so() {
    let ran = Fixture::new().run(&["import", "--from", "gemini"]).await;
    let shown = &ran.exited(0).out;
    assert_eq!(shown, "Nothing to import from Gemini CLI was found in your home directory.\n");
    let refused = Fixture::new().run(&["import", "--from", "vim"]).await;
    assert!(refused.exited(2).err.contains("claude, codex, opencode, pi, gemini"));
}

#[tokio::test]
async fn agents_of_other_programs_can_be_used_after_the_import() {
    let fixture = Fixture::new();
    let head = "---\nname: code-reviewer\ndescription: \"Reviews: all\"\ncolor: red\nmax_turns: 3\n---\nReview.";
    write(&fixture, ".claude/agents/Reviewer.md", head);
    write(
        &fixture,
        ".config/opencode/opencode.json",
        r#"{"agent": {"docs": {"prompt": "Write.", "description": "Writes: \"docs\"", "mode": "all", "model": "a/b"}}}"#,
    );
    for program in ["claude", "opencode"] {
        let applied = fixture.run(&["import", "--from", program, "--apply"]).await;
        assert!(
            applied.exited(0).err.contains("1 thing written"),
            "{}{}",
            applied.out,
            applied.err
        );
    }
    for name in ["code-reviewer", "docs"] {
        fixture.run(&["agents", "show", name]).await.exited(0);
    }
}

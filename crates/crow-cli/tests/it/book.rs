//! The book and the README: their console blocks are run, in order, and the program must print what they show.
//!
//! The blocks of a page share a home and a project. Whatever a page needs before its first block is set up here, and the
//! replies of its model are scripted here.

use std::{fs, path::Path};

use crow_testkit::{ModelServer, ScriptedReply, WireDialect};
use serde_json::json;

use crate::{
    book_page::{ConsoleCommand, console_blocks, document, how_to_update, is_update, matches},
    config::{write_project_config, write_user_config},
    program::{Fixture, finish},
};

/// Number of blocks in all pages that are not run, each with a reason in its page.
const NOT_RUN: usize = 6;

/// Defines one test per page, and the list of the pages.
macro_rules! pages {
    ($($test:ident($path:literal, $prepare:expr, $replies:expr);)*) => {
        const PAGES: &[&str] = &[$($path),*];
        $(
            #[tokio::test]
            async fn $test() {
                check($path, $prepare, $replies).await;
            }
        )*
    };
}

pages! {
    the_readme_shows_what_the_program_prints("README.md", nothing, fix_total_and_answer);
    first_steps_show_what_the_program_prints("docs/book/src/first-steps.md", nothing, fix_total);
    undo_shows_what_the_program_prints("docs/book/src/undo.md", untidy_project, clean_up);
    permissions_show_what_the_program_prints("docs/book/src/permissions.md", rules, push);
    sandbox_and_trust_show_what_the_program_prints("docs/book/src/sandbox.md", project_checks, no_replies);
    agents_show_what_the_program_prints("docs/book/src/agents.md", nothing, no_replies);
    configuration_shows_what_the_program_prints("docs/book/src/configuration.md", nothing, no_replies);
    providers_show_what_the_program_prints("docs/book/src/providers.md", nothing, no_replies);
    mcp_shows_what_the_program_prints("docs/book/src/mcp.md", servers, no_replies);
    skills_show_what_the_program_prints("docs/book/src/skills.md", a_skill, no_replies);
    editors_show_what_the_program_prints("docs/book/src/editors.md", nothing, no_replies);
    troubleshooting_shows_what_the_program_prints("docs/book/src/troubleshooting.md", nothing, fix_total);
    import_shows_what_the_program_prints("docs/book/src/import.md", other_programs, no_replies);
    hooks_show_what_the_program_prints("docs/book/src/hooks.md", a_hook, no_replies);
    scripts_show_what_the_program_prints("docs/book/src/scripts.md", a_schema, answers);
    eval_shows_what_the_program_prints("docs/book/src/eval.md", nothing, fix_total);
}

#[test]
fn every_console_block_is_run_or_has_a_reason() {
    let mut not_run = 0;
    for (path, text) in documents() {
        for block in console_blocks(&text) {
            let place = format!("{path}:{}", block.line);
            match block.not_run {
                None => assert!(PAGES.contains(&path.as_str()), "{place}: no test runs this page"),
                Some(reason) => {
                    assert!(
                        !reason.is_empty(),
                        "{place}: `<!-- not run: REASON -->` is missing above"
                    );
                    not_run += 1;
                }
            }
        }
    }
    assert_eq!(not_run, NOT_RUN, "blocks that are not run");
}

#[test]
fn commands_of_the_program_are_shown_in_console_blocks() {
    for (path, text) in documents() {
        let mut language = None;
        let mut places = Vec::new();
        for (number, line) in text.lines().enumerate() {
            if let Some(info) = line.strip_prefix("```") {
                language = if language.is_none() { Some(info) } else { None };
            } else if language.is_some_and(|language| !language.starts_with("console"))
                && line.starts_with("crow-agent ")
            {
                places.push(format!("{path}:{}: {line}", number + 1));
            }
        }
        assert_eq!(places, [""; 0], "`console` blocks are run, others are not");
    }
}

/// Returns the README and the pages of the book with their paths.
fn documents() -> Vec<(String, String)> {
    let folder = "docs/book/src";
    let pages = fs::read_dir(document(folder)).unwrap();
    let pages = pages.map(|page| page.unwrap().file_name().into_string().unwrap());
    let pages = pages
        .filter(|name| Path::new(name).extension().is_some_and(|kind| kind == "md"))
        .map(|name| format!("{folder}/{name}"));
    pages
        .chain(["README.md".to_owned()])
        .map(|path| {
            let text = fs::read_to_string(document(&path)).unwrap();
            (path, text)
        })
        .collect()
}

/// Runs the commands of a page's console blocks and compares their output.
async fn check(path: &str, prepare: fn(&Fixture), replies: fn() -> Vec<ScriptedReply>) {
    let page = fs::read_to_string(document(path)).unwrap();
    let replies = replies();
    let expected_requests = replies.len();
    let server = ModelServer::start(replies).await;
    let mut fixture = Fixture::with_tally().with_server(&server, WireDialect::AnthropicMessages);
    for name in ["OLLAMA_HOST", "LLAMACPP_HOST", "LMSTUDIO_HOST", "VLLM_HOST"] {
        fixture.set_env(name, "127.0.0.1:9");
    }
    if !has_whole_sandbox(&fixture).await {
        return;
    }
    prepare(&fixture);
    let base_url = server.base_url(WireDialect::AnthropicMessages);
    let mut wrong = Vec::new();
    let mut fresh = page.clone();
    // How much longer the new text is than the page before the current command.
    let mut growth = 0_isize;
    let blocks = console_blocks(&page).into_iter().filter(|block| block.not_run.is_none());
    for command in blocks.flat_map(|block| block.commands) {
        let printed = finish(fixture.shell(&command.line).spawn().unwrap()).await.out;
        let home = fixture.home("").canonicalize().unwrap();
        let printed = printed
            .replace(home.to_str().unwrap(), "~")
            .replace(&base_url, "https://api.anthropic.com");
        if !matches(&command.output, &printed) {
            let line = page[..command.range.start].lines().count();
            wrong.push(format!(
                "{path}:{line}: $ {}\nshown:\n{}\nprinted:\n{printed}",
                command.line, command.output
            ));
            replace_output(&mut fresh, &mut growth, &command, &printed);
        }
    }
    if is_update() {
        fs::write(document(path), fresh).unwrap();
        return;
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), how_to_update());
    let requests = server.finish().await.unwrap();
    assert_eq!(requests.len(), expected_requests, "{path}");
}

/// Returns false where the kernel has only a part of the sandbox, since the pages show it whole. There the test fails with
/// `CROW_SANDBOX=whole`, as in CI.
async fn has_whole_sandbox(fixture: &Fixture) -> bool {
    let doctor = fixture.run(&["doctor"]).await.out;
    let is_whole =
        doctor.contains("sandbox: namespaces, Landlock and seccomp confine every command");
    let must_be_whole = std::env::var_os("CROW_SANDBOX").is_some_and(|value| value == "whole");
    assert!(is_whole || !must_be_whole, "{doctor}");
    is_whole
}

fn replace_output(page: &mut String, growth: &mut isize, command: &ConsoleCommand, printed: &str) {
    let at = |offset: usize| offset.checked_add_signed(*growth).unwrap();
    page.replace_range(at(command.range.start)..at(command.range.end), printed);
    *growth += printed.len().cast_signed() - command.range.len().cast_signed();
}

fn nothing(_: &Fixture) {}

fn no_replies() -> Vec<ScriptedReply> {
    Vec::new()
}

/// Finds the bug of the project, and fixes it.
pub(crate) fn fix_total() -> Vec<ScriptedReply> {
    let fixed = json!({
        "path": "total.sh",
        "old_string": "while read -r name quantity cents; do",
        "new_string": "while read -r name quantity cents || [ -n \"$name\" ]; do",
    });
    let summary = "total.sh dropped an order whose line has no end. It counts it now.";
    vec![
        ScriptedReply::new()
            .text("I run the check first.")
            .call("c1", "bash", &json!({"command": "sh check.sh"})),
        ScriptedReply::new()
            .text("The last order is missing from the total.")
            .call("c2", "read_file", &json!({"path": "total.sh"})),
        ScriptedReply::new()
            .text("`read` fails on a last line without a newline, so the loop ends before it counts that line.")
            .call("c3", "edit_file", &fixed),
        ScriptedReply::new().call("c4", "bash", &json!({"command": "sh check.sh"})),
        ScriptedReply::new().text(summary).call("c5", "task_complete", &json!({"summary": summary})),
    ]
}

fn fix_total_and_answer() -> Vec<ScriptedReply> {
    let mut replies = fix_total();
    replies.push(ScriptedReply::new().text("A hammer costs 18.99."));
    replies
}

fn untidy_project(fixture: &Fixture) {
    fs::create_dir(fixture.project("old")).unwrap();
    fs::write(fixture.project("old/notes.md"), "teh notes\n").unwrap();
    fs::write(fixture.project("PLAN.md"), "teh plan\n").unwrap();
}

fn clean_up() -> Vec<ScriptedReply> {
    let command = json!({"command": "rm -rf old && sed -i s/teh/the/ *.md"});
    vec![
        ScriptedReply::new().call("c1", "bash", &command),
        ScriptedReply::new().text("The folder old is gone, and the spelling is corrected."),
    ]
}

fn rules(fixture: &Fixture) {
    let rules = json!({"version": 1, "rules": [
        {"id": "tests", "matcher": {"command_prefix": ["cargo", "test"]}, "decision": "allow"},
        {"id": "no-push", "matcher": {"command_prefix": ["git", "push"]}, "decision": "deny", "description": "releases are pushed by hand"},
    ]});
    write_user_config(fixture, "permissions.json", &rules.to_string());
}

fn push() -> Vec<ScriptedReply> {
    vec![
        ScriptedReply::new().call("c1", "bash", &json!({"command": "git push origin main"})),
        ScriptedReply::new().text("I may not push: releases are pushed by hand."),
    ]
}

fn project_checks(fixture: &Fixture) {
    write_project_config(fixture, "config.toml", "[checks]\ncommands = [\"sh check.sh\"]\n");
}

/// A skill of the user.
fn a_skill(fixture: &Fixture) {
    let folder = fixture.home(".agents/skills/release");
    fs::create_dir_all(&folder).unwrap();
    let text = "---\nname: release\ndescription: Makes a release of this library. Use it when asked for a release or a new version.\n---\nRun the tests first.\n";
    fs::write(folder.join("SKILL.md"), text).unwrap();
}

fn servers(fixture: &Fixture) {
    let servers = "[mcp.servers.time]\ncommand = \"uvx\"\nargs = [\"mcp-server-time\"]\n\n[mcp.servers.github]\nurl = \"https://api.githubcopilot.com/mcp/\"\ntools = [\"search_issues\", \"get_issue\"]\n";
    write_user_config(fixture, "config.toml", servers);
}

fn answers() -> Vec<ScriptedReply> {
    let command = json!({"command": "touch new.txt"});
    vec![
        ScriptedReply::new().text("The build fails because total.sh drops the last order."),
        ScriptedReply::new().text("orders.txt lists three orders."),
        ScriptedReply::new().text("A hammer costs 18.99."),
        ScriptedReply::new().call("c1", "bash", &command),
        ScriptedReply::new().text("I may not create a file."),
        ScriptedReply::new().text(r#"{"wrong": ["hammer"]}"#),
        ScriptedReply::new().text(REVIEW),
    ]
}

/// The answer of a review.
const REVIEW: &str = r#"{"findings": [{"file": "total.sh", "line": 7, "severity": "high", "confidence": 0.9, "title": "the last order is dropped", "explanation": "`while read` ends before a last line without a line break. `|| [ -n \"$line\" ]` takes it in."}], "summary": "The rest is sound."}"#;

/// A schema of answers.
fn a_schema(fixture: &Fixture) {
    let schema = json!({
        "type": "object",
        "properties": {"wrong": {"type": "array", "items": {"type": "string"}}},
        "required": ["wrong"],
    });
    fs::write(fixture.project("prices.json"), schema.to_string()).unwrap();
}

/// Files of Codex.
fn other_programs(fixture: &Fixture) {
    let folder = fixture.home(".codex/prompts");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("ticket.md"), "Write a ticket about $1.\n").unwrap();
    let config = "model = \"gpt-5\"\n\n[mcp_servers.docs]\ncommand = \"docs-server\"\nstartup_timeout_sec = 20\n";
    fs::write(fixture.home(".codex/config.toml"), config).unwrap();
}

/// A hook that guards commands.
fn a_hook(fixture: &Fixture) {
    let folder = fixture.home(".claude/hooks");
    fs::create_dir_all(&folder).unwrap();
    let guard = "import json, sys\ncall = json.load(sys.stdin)\nif \"rm -rf\" in call[\"tool_input\"].get(\"command\", \"\"):\n    print(\"use `git clean -n` first\", file=sys.stderr)\n    sys.exit(2)\n";
    fs::write(folder.join("guard.py"), guard).unwrap();
    let command = "python3 ~/.claude/hooks/guard.py";
    let hook = json!({"type": "command", "command": command, "timeout": 10});
    let settings = json!({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]}});
    fs::write(fixture.home(".claude/settings.json"), settings.to_string()).unwrap();
}

use std::{fs, path::Path};

use crow_core::permission::{PermissionRule, RuleDecision};
use tempfile::TempDir;

use super::{
    ImportPlan, ImportSource, ImportState, SessionChoice, plan_import,
    rules::{RulePaths, rules},
};
use crate::{
    config::{ProjectAdditions, configured_servers},
    environment::ProcessEnvironment,
    product,
};

/// A home with files of another program.
struct Home {
    folder: TempDir,
    environment: ProcessEnvironment,
}

impl Home {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = TempDir::new().unwrap();
        let home = folder.path().to_str().unwrap();
        let environment = ProcessEnvironment::with([
            ("HOME", home),
            ("TOKEN", "a"),
            ("KEY", "b"),
            ("WEB_TOKEN", "c"),
        ]);
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Self { folder, environment }
    }

    fn plan(&self, source: ImportSource) -> ImportPlan {
        plan_import(source, &self.environment, SessionChoice::Project).unwrap()
    }

    /// Returns the file of Crow's folder.
    fn own(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.environment.config_dir().unwrap().join(path)).ok()
    }

    /// Returns the plan in words.
    fn shown(&self, source: ImportSource) -> String {
        let plan = self.plan(source);
        let items = plan.items.iter().map(|item| {
            let notes = item.notes.join("; ");
            format!("{} {} [{notes}]", item.kind.as_str(), item.name)
        });
        let used = plan.used.iter().map(|used| format!("used: {used}"));
        let left = plan.left_out.iter().map(|left| format!("left: {}: {}", left.what, left.why));
        let lines: Vec<String> = items.chain(used).chain(left).collect();
        lines.join("\n").replace(self.folder.path().to_str().unwrap(), "~")
    }

    /// Carries a plan out and returns the lines of the servers and of the rules.
    fn import(&self, source: ImportSource) -> (String, Vec<PermissionRule>) {
        let result = self.plan(source).carry_out(false).unwrap();
        assert_eq!(result.failed, []);
        let found = configured_servers(&self.environment, &ProjectAdditions::default()).unwrap();
        assert_eq!(found.faults, [""; 0]);
        let servers = found.servers.iter().map(|(server, _)| format!("{:?}", server.server));
        let rules = product::rule_store(&self.environment).unwrap().load().unwrap().user;
        (servers.collect::<Vec<_>>().join("\n"), rules.into_rules())
    }
}

/// Returns the matchers of a permission as JSON, or why there is none.
fn matcher(written: &str, decision: RuleDecision) -> String {
    let paths = RulePaths {
        home: Path::new("/users/me"),
        settings: Path::new("/users/me/.claude"),
        star_crosses_folders: false,
    };
    match rules(written, decision, 0, paths) {
        Ok(found) => {
            let matchers = found.rules.iter().map(|rule| serde_json::to_string(&rule.matcher));
            matchers.map(Result::unwrap).collect::<Vec<_>>().join(" ")
        }
        Err(why) => why,
    }
}

#[test]
fn permissions_become_rules_that_allow_no_more_and_deny_no_less() {
    use RuleDecision::{Allow, Deny};
    for (written, decision, expected) in [
        ("Bash", Allow, r#"{"tool_name":"bash"}"#),
        ("Bash(*)", Allow, r#"{"tool_name":"bash"}"#),
        ("Bash(npm run test:*)", Allow, r#"{"command_prefix":["npm","run","test"]}"#),
        ("Bash(git commit *)", Allow, r#"{"command_prefix":["git","commit"]}"#),
        ("Bash(npm test)", Allow, r#"{"command_regex":"(?s)^npm test$"}"#),
        ("Bash(git * main)", Allow, r#"{"command_regex":"(?s)^git .* main$"}"#),
        ("Bash(* --help)", Allow, "it names no program"),
        ("Bash(python*)", Allow, r#"{"command_regex":"(?s)^python.*$"}"#),
        ("Bash(rm*)", Deny, r#"{"command_regex":"(?s)^rm.*$"}"#),
        ("Edit", Deny, r#"{"tool_name":"edit_file"} {"tool_name":"write_file"}"#),
        ("Edit", Allow, r#"{"tool_name":"edit_file"}"#),
        ("Edit(**)", Allow, "it is about the whole project: choose a mode with --permissions"),
        ("Edit(./**)", Deny, r#"{"tool_name":"edit_file"} {"tool_name":"write_file"}"#),
        ("Read(secrets/)", Deny, r#"{"regex":"(?s)^(.*/)?secrets(/.*)?$"}"#),
        ("Read(secrets/**)", Deny, r#"{"path":{"access":"read","path":"secrets"}}"#),
        ("mcp__*", Deny, r#"{"tool_name":"mcp__*"}"#),
        ("mcp__github__*", Deny, r#"{"tool_name":"mcp__github__*"}"#),
        ("mcp__gh__*_write", Deny, "a star stands only at the end of a tool's name here"),
        ("mcp__my__server__x", Deny, "the tools of that server have other names here"),
        ("Bash(:*)", Allow, r#"{"tool_name":"bash"}"#),
        ("Read(//etc/hosts)", Allow, r#"{"path":{"access":"read","path":"/etc/hosts"}}"#),
        ("Read(~/notes/**)", Allow, r#"{"path":{"access":"read","path":"/users/me/notes"}}"#),
        ("Edit(/a)", Allow, r#"{"path":{"access":"write","path":"/users/me/.claude/a"}}"#),
        ("Edit(src/**)", Allow, r#"{"path":{"access":"write","path":"src"}}"#),
        ("Read(./.env)", Deny, r#"{"path":{"access":"read","path":".env"}}"#),
        ("Read(.env)", Deny, r#"{"regex":"(?s)^(.*/)?\\.env(/.*)?$"}"#),
        ("Read(**/*.pem)", Deny, r#"{"regex":"(?s)^(.*/)?(.*/)?[^/]*\\.pem(/.*)?$"}"#),
        ("Edit(docs/*.md)", Allow, "a rule that allows names a file or a folder here, no pattern"),
        ("WebFetch(domain:docs.rs)", Allow, r#"{"host":"docs.rs"}"#),
        ("mcp__github", Allow, r#"{"tool_name":"mcp__github__*"}"#),
        ("mcp__github__get_issue", Allow, r#"{"tool_name":"mcp__github__get_issue"}"#),
        ("Frobnicate", Allow, "there is no tool like Frobnicate"),
        ("Task(Explore)", Deny, "rules for task name no arguments here"),
        ("Bash(ls", Allow, "it has no closing bracket"),
        (
            "Bash(cd x && make)",
            Allow,
            "a rule is about one program with its arguments, not about a line of the shell",
        ),
        ("Bash(echo \"a b\")", Allow, "it has quotes, which rules here do not see"),
    ] {
        assert_eq!(matcher(written, decision), expected, "{written}");
    }
}

#[test]
fn what_claude_code_has_is_imported_or_named() {
    let home = Home::new(&[
        (
            ".claude.json",
            r#"{"mcpServers": {"github": {"type": "http", "url": "https://mcp.example.org/x", "headers": {"Authorization": "Bearer ${TOKEN:-none}"}},
                "files": {"type": "stdio", "command": "npx", "args": ["-y", "files"], "env": {"A": "b"}},
                "old": {"type": "sse", "url": "https://mcp.example.org/sse"}},
              "projects": {"/elsewhere": {"mcpServers": {"p": {"command": "p"}}}}}"#,
        ),
        (
            ".claude/settings.json",
            r#"{"model": "opus", "hooks": {"Stop": []},
              "permissions": {"defaultMode": "plan", "allow": ["Bash(cargo test:*)", "Zap"], "deny": ["Read(./.env)"]}}"#,
        ),
        (
            ".claude/agents/reviewer.md",
            "---\nname: reviewer\ndescription: Reviews.\ncolor: red\n---\nReview.",
        ),
        (".claude/commands/fix.md", "Fix $ARGUMENTS."),
        (".claude/CLAUDE.md", "Be brief."),
        (".claude/projects/p/a.jsonl", "{}"),
    ]);
    insta::assert_snapshot!(home.shown(ImportSource::Claude));
    assert_eq!(home.own("config.toml"), None, "a plan writes nothing");
    let (servers, rules) = home.import(ImportSource::Claude);
    assert!(servers.contains("https://mcp.example.org/x"), "{servers}");
    assert!(servers.contains(r#"command: "npx", args: ["-y", "files"]"#), "{servers}");
    assert_eq!(rules.len(), 2);
    assert_eq!(home.own("AGENTS.md").unwrap(), "Be brief.");
    assert!(home.own("agents/reviewer.md").unwrap().contains("Review."));
    let again = home.plan(ImportSource::Claude);
    let states = |state: ImportState| again.items.iter().filter(|item| item.state == state).count();
    assert_eq!(states(ImportState::New), 0);
    assert_eq!(again.carry_out(false).unwrap().written, 0);
}

#[test]
fn what_codex_has_is_imported_or_named() {
    let home = Home::new(&[
        (
            ".codex/config.toml",
            "model = \"gpt-5\"\napproval_policy = \"never\"\n\n[mcp_servers.docs]\ncommand = \"docs\"\nargs = [\"--port\", \"1\"]\ncwd = \"/srv\"\nenv = { A = \"b\" }\nenabled_tools = [\"find\"]\nstartup_timeout_sec = 20\n\n[mcp_servers.web]\nurl = \"https://mcp.example.org\"\nbearer_token_env_var = \"WEB_TOKEN\"\n\n[mcp_servers.off]\ncommand = \"x\"\nenabled = false\n",
        ),
        (".codex/prompts/ticket.md", "---\ndescription: A ticket\nmodel: x\n---\nWrite $1."),
        (".codex/skills/pdf/SKILL.md", "---\nname: pdf\ndescription: PDF\n---\nRead."),
        (".codex/skills/pdf/scripts/read.py", "print(1)"),
        (".codex/AGENTS.md", "Be brief."),
    ]);
    insta::assert_snapshot!(home.shown(ImportSource::Codex));
    let (servers, _) = home.import(ImportSource::Codex);
    assert!(servers.contains(r#"cwd: Some("/srv")"#), "{servers}");
    assert!(home.own("config.toml").unwrap().contains("Bearer ${WEB_TOKEN}"));
    assert!(home.own("prompts/commands/ticket.md").unwrap().contains("Write $1."));
    assert_eq!(home.own("skills/pdf/scripts/read.py").unwrap(), "print(1)");
}

#[test]
fn what_opencode_has_is_imported_or_named() {
    let home = Home::new(&[
        (
            ".config/opencode/opencode.jsonc",
            r#"{ // a comment
              "$schema": "x", "model": "a/b",
              "mcp": {"local": {"type": "local", "command": ["bun", "x"], "environment": {"K": "{env:KEY}"}},
                      "far": {"type": "remote", "url": "https://mcp.example.org", "enabled": true}},
              "permission": {"edit": "ask", "bash": {"git push *": "deny", "*": "allow"}, "doom_loop": "ask"},
              "agent": {"docs": {"description": "Writes", "mode": "subagent", "prompt": "{file:./docs.txt}", "temperature": 0.1},
                        "build": {"model": "a/c"}},
              "command": {"test": {"template": "Run !`make` for $ARGUMENTS", "description": "Tests", "agent": "build"}},
            }"#,
        ),
        (".config/opencode/docs.txt", "Write documents."),
        (".config/opencode/agents/plain.md", "---\ndescription: Plain\nmode: primary\n---\nDo."),
        (".config/opencode/command/hi.md", "Say hi."),
    ]);
    insta::assert_snapshot!(home.shown(ImportSource::OpenCode));
    let (servers, rules) = home.import(ImportSource::OpenCode);
    assert!(servers.contains(r#"command: "bun""#), "{servers}");
    assert!(home.own("config.toml").unwrap().contains("${KEY}"));
    assert_eq!(rules.len(), 4, "`edit` is about two tools");
    assert!(home.own("agents/docs.md").unwrap().contains("Write documents."));
    assert!(home.own("prompts/commands/test.md").unwrap().contains("Run !`make` for $ARGUMENTS"));
}

#[test]
fn what_pi_has_is_imported_or_named() {
    let home = Home::new(&[
        (".pi/agent/prompts/review.md", "Review $@ and ${@:2}."),
        (".pi/agent/AGENTS.md", "Be brief."),
        (".pi/agent/extensions/x.ts", ""),
    ]);
    insta::assert_snapshot!(home.shown(ImportSource::Pi));
    home.import(ImportSource::Pi);
    let text = home.own("prompts/commands/review.md").unwrap();
    assert_eq!(text, "Review $ARGUMENTS and ${@:2}.");
}

#[test]
fn what_gemini_cli_has_is_imported_or_named() {
    let home = Home::new(&[
        (
            ".gemini/settings.json",
            r#"{"mcpServers": {"a": {"command": "a", "env": {"T": "$TOKEN"}, "includeTools": ["x"], "trust": true},
                               "b": {"httpUrl": "https://mcp.example.org"}},
                "tools": {"allowed": ["run_shell_command(git status)"], "exclude": ["run_shell_command(rm)", "write_file"]},
                "hooks": {}}"#,
        ),
        (
            ".gemini/commands/git/commit.toml",
            "description = \"Commits\"\nprompt = \"\"\"\nDiff: !{git diff {{args}}}\nRules: @{RULES.md}\n\"\"\"\n",
        ),
        (".gemini/commands/bad.toml", "prompt = \n"),
        (".gemini/GEMINI.md", "Be brief."),
    ]);
    insta::assert_snapshot!(home.shown(ImportSource::Gemini));
    let (_, rules) = home.import(ImportSource::Gemini);
    assert_eq!(rules.len(), 3);
    assert!(home.own("config.toml").unwrap().contains("${TOKEN}"));
    let text = home.own("prompts/commands/commit.md").unwrap();
    assert!(text.contains("Diff: !`git diff $ARGUMENTS`\nRules: @RULES.md"), "{text}");
}

#[test]
fn what_crow_has_stays_unless_it_is_to_be_replaced() {
    let home = Home::new(&[
        (".pi/agent/prompts/a.md", "Theirs."),
        (".pi/agent/prompts/b.md", "Theirs, too."),
        (".config/crow-agent/prompts/commands/a.md", "Mine."),
    ]);
    let plan = home.plan(ImportSource::Pi);
    assert_eq!(plan.items[0].state, ImportState::Other);
    assert_eq!(plan.carry_out(false).unwrap().written, 1);
    assert_eq!(home.own("prompts/commands/a.md").unwrap(), "Mine.");
    assert_eq!(plan.carry_out(true).unwrap().written, 2);
    assert_eq!(home.own("prompts/commands/a.md").unwrap(), "Theirs.");
}

#[test]
fn damaged_files_are_named_with_their_place_and_the_others_are_imported() {
    let home = Home::new(&[
        (".claude.json", "{\n  \"mcpServers\": {\n    oops\n"),
        (".claude/settings.json", "[]"),
        (".claude/agents/no-head.md", "Just text."),
        (".claude/CLAUDE.md", "Be brief."),
    ]);
    fs::write(home.folder.path().join(".claude/agents/binary.md"), [0xff, 0xfe]).unwrap();
    insta::assert_snapshot!(home.shown(ImportSource::Claude));
    let home = Home::new(&[(".codex/config.toml", "[mcp_servers\n"), (".codex/AGENTS.md", "Hi.")]);
    insta::assert_snapshot!(home.shown(ImportSource::Codex));
}

#[test]
fn names_that_lead_out_of_the_folder_are_left_out() {
    let home = Home::new(&[(
        ".config/opencode/opencode.json",
        r#"{"command": {"../../../x": {"template": "a"}, "/tmp/y": {"template": "b"}, "git/commit": {"template": "c"}},
            "agent": {"../evil": {"prompt": "d"}, "two words": {"prompt": "e"}}}"#,
    )]);
    let plan = home.plan(ImportSource::OpenCode);
    assert!(plan.items.is_empty(), "{:?}", plan.items);
    assert_eq!(plan.left_out.len(), 5);
}

#[test]
fn agents_with_limits_that_have_no_equal_are_left_out() {
    let home = Home::new(&[
        (
            ".config/opencode/opencode.json",
            r#"{"agent": {"a": {"prompt": "x", "tools": {"write": false}}, "b": {"prompt": "x", "permission": {"edit": "deny"}},
                          "c": {"prompt": "{{x}}"}}}"#,
        ),
        (".config/opencode/agent/d.md", "---\ndescription: x\ntools:\n  write: false\n---\nx"),
        (".config/opencode/agent/e.md", "---\ndescription: x\npermission:\n  edit: deny\n---\nx"),
    ]);
    let plan = home.plan(ImportSource::OpenCode);
    assert!(plan.items.is_empty(), "{:?}", plan.items);
    assert_eq!(plan.left_out.len(), 5);
}

#[test]
fn the_order_of_permissions_of_opencode_decides() {
    let home = Home::new(&[(
        ".config/opencode/opencode.json",
        r#"{"permission": {"bash": {"git *": "allow", "git push*": "ask", "rm *": "deny", "*": "ask"}}}"#,
    )]);
    let (_, rules) = home.import(ImportSource::OpenCode);
    let mut order: Vec<(i32, &str)> =
        rules.iter().map(|rule| (rule.priority, rule.id.as_str())).collect();
    order.sort_unstable();
    let ids = order.iter().map(|(_, id)| id.trim_start_matches("imported: ")).collect::<Vec<_>>();
    assert_eq!(ids, ["Bash(git *)", "Bash(git push*)", "Bash(rm *)", "Bash(*)"]);
}

#[test]
fn a_skill_is_replaced_only_by_a_whole_copy() {
    let home = Home::new(&[
        (".codex/skills/pdf/SKILL.md", "---\nname: pdf\ndescription: New\n---\nNew."),
        (".codex/skills/pdf/a/b/c/d/e/deep.txt", "x"),
        (".config/crow-agent/skills/pdf/SKILL.md", "Mine."),
    ]);
    assert!(home.shown(ImportSource::Codex).contains("its folders are too deep"));
    fs::remove_dir_all(home.folder.path().join(".codex/skills/pdf/a")).unwrap();
    assert_eq!(home.plan(ImportSource::Codex).carry_out(true).unwrap().written, 1);
    assert!(home.own("skills/pdf/SKILL.md").unwrap().contains("New."));
    let folder = home.environment.config_dir().unwrap().join("skills");
    assert_eq!(fs::read_dir(folder).unwrap().count(), 1, "nothing else is left");
}

#[test]
fn a_folder_that_links_to_itself_is_read_once() {
    let home =
        Home::new(&[(".pi/agent/prompts/a.md", "A."), (".pi/agent/prompts/\u{6f22}.md", "B.")]);
    let prompts = home.folder.path().join(".pi/agent/prompts");
    std::os::unix::fs::symlink(&prompts, prompts.join("again")).unwrap();
    let plan = home.plan(ImportSource::Pi);
    assert_eq!((plan.items.len(), plan.left_out.len()), (1, 1));
}

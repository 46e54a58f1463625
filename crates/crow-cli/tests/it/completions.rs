//! Shell completions of half-typed lines.

use std::{fs, path::Path, process::Command, time::Instant};

use crow_testkit::{ModelServer, ScriptedReply, WireDialect};

use crate::program::{Fixture, finish};

/// Bash script that loads the completions as users do, and prints those for the last of the given words.
const COMPLETE: &str = r#"
source <(crow-agent completions bash) || exit 9
name=$(complete -p crow-agent | sed 's/.* -F \([^ ]*\).*/\1/')
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_TYPE=9 COMP_KEY=9
COMP_LINE=$LINE COMP_POINT=${#LINE}
last=${COMP_WORDS[COMP_CWORD]}
case $last in [=:]) last= ;; esac
"$name" crow-agent "$last" "${COMP_WORDS[COMP_CWORD-1]}" 2>/dev/null
printf '%s\n' "${COMPREPLY[@]}"
"#;

/// Returns bash's completions for the last word of a line. Like bash it also splits words at `=` and `:`.
async fn completions_for(fixture: &Fixture, line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for letter in line.chars() {
        let last = words.last_mut().unwrap();
        let is_break = |text: &str| matches!(text, "=" | ":");
        match letter {
            ' ' => words.push(String::new()),
            '=' | ':' if last.is_empty() => last.push(letter),
            '=' | ':' => words.push(letter.to_string()),
            _ if is_break(last) => words.push(letter.to_string()),
            _ => last.push(letter),
        }
    }
    let program = Path::new(env!("CARGO_BIN_EXE_crow-agent")).parent().unwrap();
    let mut command = Command::new("bash");
    command.args(["--norc", "-c", COMPLETE, "bash"]).args(&words);
    command.current_dir(fixture.project("")).env_clear().envs(fixture.variables());
    command.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", program.display()));
    command.env("LINE", line).stdout(std::process::Stdio::piped());
    let ran = finish(command.stderr(std::process::Stdio::piped()).spawn().unwrap()).await;
    assert_eq!(ran.err, "", "{line}");
    ran.exited(0).out.lines().map(str::to_owned).collect()
}

/// Panics unless all expected words are offered.
async fn assert_offers(fixture: &Fixture, line: &str, expected: &[&str]) {
    let completions = completions_for(fixture, line).await;
    for word in expected {
        assert!(
            completions.iter().any(|one| one == word),
            "{line}<TAB>: {completions:?}, not {word}"
        );
    }
}

#[tokio::test]
async fn bash_completes_subcommands_and_their_options() {
    let fixture = Fixture::new();
    for (line, expected) in [
        ("crow-agent sess", &["sessions"][..]),
        ("crow-agent sessions ", &["list", "show", "resume", "export"]),
        ("crow-agent sessions show --ch", &["--changes"]),
        ("crow-agent agents list --output ", &["text", "json"]),
        ("crow-agent agents list --output=", &["text", "json"]),
        ("crow-agent run --permissions full", &["full-auto"]),
        ("crow-agent completions b", &["bash"]),
    ] {
        assert_offers(&fixture, line, expected).await;
    }
}

#[tokio::test]
async fn bash_completes_models_agents_providers_and_servers() {
    let mut fixture = Fixture::new();
    let config = fixture.home(".config/crow-agent");
    fs::create_dir_all(config.join("providers")).unwrap();
    fs::write(config.join("providers/house.toml"), PROVIDER).unwrap();
    fs::write(
        config.join("config.toml"),
        "[mcp.servers.wiki]\ncommand = \"touch\"\nargs = [\"started\"]\n",
    )
    .unwrap();
    fixture.set_env("ANTHROPIC_API_KEY", "sk-test-0123456789");
    let models = completions_for(&fixture, "crow-agent -m ").await;
    assert!(models[0].starts_with("house/") || models[0].starts_with("anthropic/"), "{models:?}");
    for (line, expected) in [
        ("crow-agent run --model hou", &["house/m:8b"][..]),
        ("crow-agent run --model=hou", &["house/m:8b"]),
        ("crow-agent run -m house/m:", &["8b"]),
        ("crow-agent run --agent B", &["BUILD-HITL"]),
        ("crow-agent agents show bui", &["builder"]),
        ("crow-agent login an", &["anthropic"]),
        ("crow-agent models hou", &["house"]),
        ("crow-agent mcp test w", &["wiki"]),
    ] {
        assert_offers(&fixture, line, expected).await;
    }
    assert!(!fixture.project("started").exists());
}

#[tokio::test]
async fn bash_completes_session_ids_and_used_models() {
    let server = ModelServer::start([ScriptedReply::new().text("Done.")]).await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    fixture.run(&["run", "say done", "-m", "anthropic/claude-test"]).await.exited(0);
    let id = fixture.id();
    let begin = &id[..id.len() - 4];
    for line in [
        "crow-agent sessions show ",
        "crow-agent sessions rm x ",
        "crow-agent run --resume ",
        "crow-agent --resume ",
        "crow-agent undo --session ",
        "crow-agent diff -s ",
        &format!("crow-agent sessions export {begin}"),
    ] {
        assert_offers(&fixture, line, &[&id]).await;
    }
    assert_offers(&fixture, "crow-agent -m anthropic/claude-t", &["anthropic/claude-test"]).await;
    assert_eq!(server.finish().await.unwrap().len(), 1);
}

/// The limit is generous because other tests share the machine.
#[tokio::test]
async fn completion_takes_less_than_five_seconds() {
    let fixture = Fixture::new();
    let started = Instant::now();
    let mut command = fixture.command(&["--", "crow-agent", "-m", ""]);
    let ran = finish(
        command.env("CROW_COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", "2").spawn().unwrap(),
    )
    .await;
    assert!(ran.exited(0).out.contains("anthropic/"), "{ran:?}");
    assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
}

const PROVIDER: &str = "[provider]\nname = \"house\"\ntype = \"openai-chat\"\nbase_url = \"http://127.0.0.1:9/v1\"\n[defaults]\nmodel = \"m:8b\"\n";

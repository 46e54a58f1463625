//! The program is killed while a command runs that planted files; the next start must find and remove them.

use std::{fs, time::Duration};

use crow_testkit::{ModelServer, Script, ScriptedReply, WireDialect};
use serde_json::json;
use tokio::{
    task::spawn_blocking,
    time::{sleep, timeout},
};

use crate::{
    canaries::{differences, stamps, survivors, tree},
    scene::Scene,
    trial_runner::has_full_sandbox,
};

const REPOSITORY: &str = "rm -rf .git; git init -q -b main .; git config user.email a@b; git config user.name a; echo a > a.txt; git add -A; git commit -qm x; \
     mkdir -p cfg; git config core.hooksPath cfg/hooks; git init -q {out}/r; printf '#!/bin/sh\\n' > {out}/r/.git/hooks/pre-commit";
const EVIL: &str = "printf '#!/bin/sh\\ntouch {out}/pwned\\n'";

/// Runs the program once. With `line` the model asks for this command, and the program is killed as soon as the command
/// creates the file `go`. Returns stderr, or an error if the command or the program does not finish in time.
async fn run(scene: &Scene, line: Option<&str>) -> Result<String, String> {
    let mut script = Script::new();
    if let Some(line) = line {
        let input = json!({"command": scene.fill(line), "timeout": 30_000});
        script = script.then(ScriptedReply::new().call("c0", "bash", &input));
    }
    let server =
        ModelServer::start(script.then_respond(|_| ScriptedReply::new().text("Done.").into()))
            .await;
    let args = ["run", "go on", "-m", "anthropic/claude-sonnet-4-5", "-p", "full-auto"];
    let mut command = scene.program(&args.map(str::to_owned));
    command.env("ANTHROPIC_BASE_URL", server.base_url(WireDialect::AnthropicMessages));
    let mut child = command.spawn().unwrap();
    if line.is_some() {
        let go = scene.project().join("go");
        let planted = timeout(Duration::from_secs(30), async {
            while fs::symlink_metadata(&go).is_err() {
                sleep(Duration::from_millis(1)).await;
            }
        });
        let planted = planted.await;
        child.kill().unwrap();
        child.wait().unwrap();
        return planted.map(|()| String::new()).map_err(|_| "nothing was planted".to_owned());
    }
    let ended = timeout(Duration::from_secs(30), spawn_blocking(|| child.wait_with_output()));
    let ended = ended.await.map_err(|_| "it does not end".to_owned())?.unwrap().unwrap();
    Ok(String::from_utf8_lossy(&ended.stderr).into_owned())
}

async fn judge(name: &str, line: &str) -> Option<String> {
    let scene = Scene::new();
    scene.prepare(REPOSITORY);
    let (home, out) = (tree(&scene.home()), stamps(&scene.out()));
    let line = format!("{line}; touch go; sleep 60");
    let mut wrong = Vec::new();
    wrong.extend(run(&scene, Some(&line)).await.err());
    let stderr = run(&scene, None).await.unwrap_or_else(|error| error);
    wrong.extend(scene.run_script("set +e; timeout 9 git status >/dev/null 2>&1; timeout 9 git commit -qm y --allow-empty >/dev/null 2>&1; true"));
    wrong.extend(differences(&out, &stamps(&scene.out())));
    let own = |name: &String| name[1..].starts_with(".local/share/crow-agent");
    wrong.extend(differences(&home, &tree(&scene.home())).into_iter().filter(|name| !own(name)));
    let marked = tree(&scene.project()).into_iter().filter(|(name, (_, text))| {
        (name.starts_with(".vscode")
            || name.starts_with(".envrc")
            || name.starts_with(".git/hooks"))
            && String::from_utf8_lossy(text).contains("PWN")
    });
    wrong.extend(marked.map(|(name, _)| name));
    wrong.extend(survivors(&scene.mark));
    (!wrong.is_empty()).then(|| format!("{name}: {}\n{stderr}", wrong.join(", ")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_planted_before_a_kill_are_removed_at_the_next_start() {
    if !has_full_sandbox("killed programs") {
        return;
    }
    let hook = format!(
        "mkdir -p cfg/hooks; {EVIL} > cfg/hooks/post-commit; chmod +x cfg/hooks/post-commit"
    );
    let table = [
        ("settings of an editor", "mkdir .vscode; echo PWN > .vscode/tasks.json; echo PWN > .envrc".to_owned()),
        ("hooks that settings name", hook.clone()),
        ("a common directory", "cp -r .git evil; git config -f evil/config core.fsmonitor 'touch {out}/pwned; false'; echo ../evil > .git/commondir".to_owned()),
        ("another repository", "cp -r .git g; git config -f g/config core.fsmonitor 'touch {out}/pwned; false'; mv .git g2; mv g .git".to_owned()),
        ("hooks, and a way out", format!("{hook}; mv cfg cfg2; ln -s {{out}}/r/.git cfg")),
        ("settings, and a way out", "mkdir .vscode; echo PWN > .vscode/tasks.json; mv .vscode v; ln -s {home}/.ssh .vscode".to_owned()),
        ("git in the home", "mv .git g; ln -s {out}/r/.git .git".to_owned()),
        ("no modes", format!("{hook}; mkdir .vscode; echo PWN > .vscode/tasks.json; chmod 000 .vscode cfg/hooks")),
        ("a submodule", "mkdir new; git init -q new; git -C new config core.fsmonitor 'touch {out}/pwned; false'; git update-index --add --cacheinfo 160000,1234567890123456789012345678901234567890,new".to_owned()),
        ("a remote", "git clone -q --bare . server.git; mkdir .git/remotes; echo 'URL: ./server.git' > .git/remotes/origin".to_owned()),
    ];
    let mut wrong = Vec::new();
    for (name, line) in table {
        wrong.extend(judge(name, &line).await);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

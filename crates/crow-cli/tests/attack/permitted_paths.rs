//! File tools are limited to the paths that the sandbox permits: exactly these in `full-auto`, fewer in the other modes.

use serde_json::{Value, json};

use crate::{attack::Attack, canaries::FILE_SECRET, trial_runner::try_all};

fn write(path: &str) -> (&'static str, Value) {
    ("write_file", json!({"path": path, "content": "PWN"}))
}

fn edit(path: &str, old: &str) -> (&'static str, Value) {
    ("edit_file", json!({"path": path, "old_string": old, "new_string": "PWN"}))
}

fn read(path: &str) -> (&'static str, Value) {
    ("read_file", json!({"path": path}))
}

fn grep(path: &str) -> (&'static str, Value) {
    ("grep", json!({"pattern": ".", "path": path}))
}

fn case(name: &str, mode: &'static str, (tool, input): (&'static str, Value)) -> Attack {
    Attack::new(format!("places: {name} in {mode}"), mode).call(tool, input)
}

/// Calls on paths that the sandbox does not permit: name, preparation script, call.
fn ways_out() -> Vec<(&'static str, &'static str, (&'static str, Value))> {
    vec![
        ("a key of the user", "true", write("{home}/.ssh/authorized_keys")),
        ("what starts with the desktop", "true", write("{home}/.config/autostart/x.desktop")),
        ("what a shell reads", "true", write("{home}/.bashrc")),
        ("a file outside", "true", write("{out}/new")),
        ("an edit outside", "true", edit("{out}/victim", "untouched")),
        ("a way out through a link", "ln -s {out} way", write("way/new")),
        ("a link to nowhere outside", "ln -s {home}/.profile way", write("way")),
        ("rules of Crow", "true", write("{config}/permissions.json")),
        ("settings of Crow", "true", write("{config}/config.toml")),
        ("trust of Crow", "true", write("{data}/trust.json")),
        ("temporary files of the system", "true", write("/tmp/{mark}")),
        ("shared memory", "true", write("/dev/shm/{mark}")),
        ("a hook of git", "true", write(".git/hooks/pre-commit")),
        ("a hook of git by a link", "ln -s .git way", write("way/hooks/pre-commit")),
        ("a hook of git in upper case", "true", write(".GIT/hooks/pre-commit")),
        ("settings of git", "true", edit(".git/config", "[core]")),
        ("a hook of a submodule", "true", write(".git/modules/a/hooks/post-checkout")),
        ("a hook of a nested repository", "mkdir -p a/b/.git", write("a/b/.git/hooks/pre-commit")),
        ("the git file of a worktree", "mkdir tree", write("tree/.git")),
        ("servers of agents", "true", write(".mcp.json")),
        ("settings of the project", "true", write(".crow-agent/config.toml")),
        ("tasks of an editor", "true", write("sub/.vscode/tasks.json")),
        ("a key that is read", "true", read("{home}/.ssh/id_ed25519")),
        ("a key behind a link", "ln -s {home}/.ssh/id_ed25519 notes", read("notes")),
        ("a folder of keys", "ln -s {home}/.aws a", read("a/credentials")),
        ("keys of Crow", "true", read("{config}/credentials.json")),
        ("a key that is edited", "true", edit("{home}/.ssh/id_ed25519", "none")),
        ("a key that is searched", "true", grep("{home}/.ssh/id_ed25519")),
        ("a folder that is searched", "true", grep("{home}/.ssh")),
        ("a folder that is listed", "true", ("list_directory", json!({"path": "{home}/.ssh"}))),
        ("names in a folder", "true", ("glob", json!({"pattern": "{home}/.ssh/*"}))),
        ("variables of the agent", "true", read("/proc/self/environ")),
        ("memory of the agent", "true", read("/proc/self/maps")),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn file_tools_in_full_auto_cannot_leave_the_permitted_paths() {
    let key_entry = json!({"origin": "https://models.invalid", "key": FILE_SECRET});
    let keys = json!({"version": 1, "keys": {"OTHER_API_KEY": key_entry}}).to_string();
    let cases = ways_out().into_iter().map(|(name, before, call)| {
        case(name, "full-auto", call)
            .file("{config}/credentials.json", &keys)
            .before(before)
            .absent(&["/tmp", "/dev/shm"])
            .refused()
    });
    try_all(cases.collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn file_tools_without_a_sandbox_have_the_same_permitted_paths() {
    let cases = ways_out().into_iter().step_by(3).map(|(name, before, call)| {
        case(&format!("{name}, no sandbox"), "full-auto", call)
            .arg("--no-sandbox")
            .before(before)
            .refused()
    });
    try_all(cases.collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_of_the_home_directory_skips_key_directories() {
    let cases = [
        ("a search of the home", grep("{home}")),
        ("a search around the home", grep("{home}/..")),
        ("names in the home", ("glob", json!({"pattern": "{home}/**/*ed25519*"}))),
        ("a list of the home", ("list_directory", json!({"path": "{home}", "depth": 9}))),
    ];
    let cases =
        cases.into_iter().map(|(name, call)| case(name, "full-auto", call).hides("id_ed25519"));
    try_all(cases.collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_calls_do_not_reveal_whether_a_file_outside_exists() {
    let calls = [
        ("a file that is there", write("{out}/victim")),
        ("a file that is not there", write("{out}/none")),
        ("an edit that does not fit", edit("{out}/victim", "intouched")),
        ("an edit of nothing", edit("{out}/none", "x")),
        ("a file as a folder", write("{out}/victim/below")),
        ("a missing folder", write("{out}/none/below")),
        ("a read below a file", read("{out}/victim/below")),
        ("a read of a folder", read("{out}")),
        ("a search below a file", grep("{out}/victim/below")),
        ("a file behind a link", write("way/victim")),
    ];
    let cases = calls.into_iter().flat_map(|(name, call)| {
        ["ask", "accept-edits"].map(|mode| {
            case(name, mode, call.clone()).before("ln -s {out} way").hides("untouched").refused()
        })
    });
    try_all(cases.collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_tool_asks_before_it_reads_a_file_with_keys() {
    let calls = [
        ("a read", read(".env")),
        ("a read of a variant", read("sub/prod.env")),
        ("a read behind a link", read("notes")),
        ("a search", grep(".env")),
        ("an edit that does not fit", edit(".env", "TOKEN=x")),
        ("a command", ("bash", json!({"command": "cat .env"}))),
        ("a redirect", ("bash", json!({"command": "cat < .env"}))),
    ];
    let with_keys = |attack: Attack| {
        let text = format!("TOKEN={FILE_SECRET}\n");
        attack.file(".env", &text).file("sub/prod.env", &text).before("ln -s .env notes")
    };
    let named = calls.into_iter().flat_map(|(name, call)| {
        ["ask", "accept-edits"].map(|mode| with_keys(case(name, mode, call.clone())).refused())
    });
    let around = ["ask", "accept-edits", "read-only", "full-auto"].map(|mode| {
        let attack = case("a search of all", mode, ("grep", json!({"pattern": "TOKEN"})));
        with_keys(attack).shows("not searched").shows(".env, sub/prod.env").any()
    });
    let read_only = with_keys(case("a read", "read-only", read(".env"))).refused();
    try_all(named.chain(around).chain([read_only]).collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permitted_file_calls_pass_without_a_question_in_full_auto() {
    let works = |name: &str, (tool, input): (&'static str, Value)| {
        Attack::works(format!("places: {name}"), "full-auto").call(tool, input)
    };
    let new = |path: &str| ("write_file", json!({"path": path, "content": "x"}));
    let allow = |access: &str, path: &str| json!({"path": {"access": access, "path": path}});
    try_all(vec![
        works("a new file", new("a/b/c.txt")),
        works("an edit", edit("notes.txt", "more")).file("notes.txt", "more\n"),
        works("a file that was read", read("notes.txt"))
            .file("notes.txt", "more\n")
            .call("write_file", json!({"path": "notes.txt", "content": "less\n"})),
        works("a file of git that starts nothing", new(".gitignore")),
        works("instructions", new("AGENTS.md")),
        works("a file with keys", read(".env")).file(".env", "A=1\n"),
        works("a new file with keys", new(".env.local")),
        works("a sample", new(".env.example")),
        works("settings of an editor that are read", read(".vscode/tasks.json"))
            .file(".vscode/tasks.json", "{}\n"),
        works("a link inside", edit("link", "more"))
            .file("notes.txt", "more\n")
            .before("ln -s notes.txt link"),
        works("a read outside", read("{out}/victim")),
        works("a search outside", ("grep", json!({"pattern": "untouched", "path": "{out}"})))
            .shows("untouched"),
        works("names outside", ("glob", json!({"pattern": "{out}/*"}))).shows("victim"),
        works("a list outside", ("list_directory", json!({"path": "{out}"}))).shows("victim"),
        works("a file of the system", read("/etc/passwd")),
        works("what the kernel says of itself", read("/proc/version")),
        works("what the user unprotected", new(".github/workflows/ci.yml"))
            .file("{config}/config.toml", "[sandbox]\nunprotected = [\".github\"]\n"),
        works("what a rule of the user names", read("{home}/.ssh/known_hosts"))
            .file("{home}/.ssh/known_hosts", "a.invalid ssh-ed25519 AAAA\n")
            .rule("allow", &allow("read", "{home}/.ssh/known_hosts")),
        works("a protected file that a rule of the user names", new(".mcp.json"))
            .rule("allow", &allow("write", ".mcp.json")),
    ])
    .await;
}

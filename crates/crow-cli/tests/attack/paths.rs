//! Paths that lead file tools out of the project.

use serde_json::{Value, json};

use crate::{attack::Attack, trial_runner::try_all};

/// Ways out of the project, to the folder `out` beside it: name, the attacker's preparation script, path.
const WAYS: [(&str, &str, &str); 13] = [
    ("a link to a file", "ln -s {out}/victim way", "way"),
    ("a link to a folder", "ln -s {out} way", "way/victim"),
    ("a relative link", "ln -s ../out way", "way/victim"),
    ("a link to a link", "ln -s {out} one; ln -s one way", "way/victim"),
    ("a link below a folder", "mkdir -p a/b; ln -s ../../../out a/b/way", "a/b/way/victim"),
    ("dots", "true", "../out/victim"),
    ("dots after a folder", "mkdir a", "a/../../out/victim"),
    // Dots are resolved lexically as in the shell, not as in the kernel, so the path stays in the project.
    ("dots after a link", "ln -s {out} way; touch out", "way/../out/victim"),
    ("an absolute path", "true", "{out}/victim"),
    (
        "a path with the project's name first",
        "mkdir ../project-evil; ln -s ../out ../project-evil/way",
        "../project-evil/way/victim",
    ),
    ("the root of a process", "true", "/proc/self/root{out}/victim"),
    ("the folder of a process", "true", "/proc/self/cwd/../out/victim"),
    ("doubled slashes", "true", ".//..//out///victim"),
];

fn edit(path: &str) -> Value {
    json!({"path": path, "old_string": "untouched", "new_string": "PWN"})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_tool_path_that_leads_out_of_the_project_is_asked_about() {
    let cases = WAYS.iter().flat_map(|(name, before, path)| {
        let attack = |tool: &str| {
            Attack::new(format!("{tool} through {name}"), "accept-edits").before(before)
        };
        [
            attack("write_file")
                .call("write_file", json!({"path": path, "content": "PWN"}))
                .fails(),
            attack("edit_file").call("edit_file", edit(path)).fails(),
            attack("read_file").call("read_file", json!({"path": path})).fails(),
        ]
    });
    try_all(cases.collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_new_file_is_created_outside_the_project() {
    let write = |path: &str| json!({"path": path, "content": "PWN"});
    let case = |(name, before, path): (&str, &str, &str)| {
        Attack::new(format!("new file through {name}"), "accept-edits")
            .before(before)
            .call("write_file", write(path))
            .fails()
    };
    let table = [
        ("a link that leads nowhere", "ln -s {out}/new way", "way"),
        ("a link to a folder that is not there", "ln -s {out}/folder way", "way/new"),
        ("a link to the home", "ln -s {home} way", "way/.bashrc"),
        ("a chain of links that lead nowhere", "ln -s {out}/new one; ln -s one way", "way"),
        ("a link to the settings of Crow", "ln -s {config} way", "way/permissions.json"),
        ("a link to the trust of Crow", "ln -s {data} way", "way/trust.json"),
        ("a tilde that is a folder's name", "ln -s {home} '~'", "~/.profile"),
        ("the descriptors of a process", "true", "/proc/self/fd/1"),
        ("shared memory", "true", "/dev/shm/{mark}"),
    ];
    try_all(table.into_iter().map(case).collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_that_start_programs_are_asked_about_under_any_name() {
    let case = |(name, before, path): &(&str, &str, &str)| {
        let write = json!({"path": path, "content": "PWN"});
        Attack::new(format!("settings: {name}"), "accept-edits")
            .before(before)
            .call("write_file", write)
            .fails()
    };
    let table = [
        ("a hook of git", "true", ".git/hooks/pre-commit"),
        ("the settings of git", "true", ".git/config"),
        ("upper case", "true", ".GIT/config"),
        ("mixed case", "true", ".VsCode/tasks.json"),
        ("a link to git", "ln -s .git way", "way/hooks/pre-commit"),
        ("dots to git", "mkdir a", "a/../.git/config"),
        ("a link that leads nowhere yet", "ln -s .vscode way", "way/tasks.json"),
        ("tasks of an editor", "true", ".vscode/tasks.json"),
        ("a workflow", "true", ".github/workflows/x.yml"),
        ("rules of Crow", "true", ".crow-agent/permissions.json"),
        ("a provider of Crow", "true", ".crow-agent/providers/x.toml"),
        ("servers of agents", "true", ".mcp.json"),
        ("settings of another agent", "true", ".claude/settings.json"),
        ("settings of a third", "true", ".cursor/mcp.json"),
        ("variables of a folder", "true", ".envrc"),
        ("what a server of builds runs", "true", ".gitlab-ci.yml"),
        ("the same in upper case", "true", "jenkinsfile"),
        ("what an editor runs", "true", ".nvim.lua"),
        ("instructions of agents", "true", "AGENTS.md"),
        ("instructions in a folder", "true", "sub/CLAUDE.md"),
        ("rules of an editor", "true", ".cursorrules"),
        ("rules and hooks of an agent", "true", ".clinerules/hooks/x"),
        ("hooks of a third agent", "true", ".kiro/hooks/x.json"),
        ("settings of a fourth agent", "true", "opencode.json"),
        ("hooks of husky", "true", ".husky/pre-commit"),
        ("hooks of pre-commit", "true", ".pre-commit-config.yaml"),
        ("hooks of lefthook", "true", "lefthook.yml"),
        ("a container for development", "true", ".devcontainer/devcontainer.json"),
        ("the same as a file", "true", ".devcontainer.json"),
        ("the second file of Emacs", "true", ".dir-locals-2.el"),
        ("a workspace of an editor", "true", "x.code-workspace"),
        ("build systems of an editor", "true", "sub/x.sublime-project"),
        ("pipelines", "true", "bitbucket-pipelines.yml"),
        ("settings of cargo", "true", ".cargo/config.toml"),
        ("settings of cargo in a folder", "true", "sub/.cargo/config"),
        ("settings of npm", "true", ".npmrc"),
        ("variables of a folder in it", "true", "sub/.envrc"),
        ("git in a folder", "mkdir -p sub/.git", "sub/.git/hooks/pre-commit"),
        ("an invisible character", "true", ".g\u{200c}it/hooks/pre-commit"),
        ("a long s", "true", ".v\u{17f}code/tasks.json"),
    ];
    // No file system treats these names as equal to the protected ones, so they are ordinary files.
    let other_names = ["an invisible character", "a long s"];
    let cases = table
        .iter()
        .map(|entry| if other_names.contains(&entry.0) { case(entry).any() } else { case(entry) });
    try_all(cases.collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_does_not_leave_the_project_through_a_link() {
    let ways =
        "ln -s {home} way; ln -s {home}/.ssh/id_ed25519 key; mkdir a; ln -s {home}/.aws a/deep";
    let case = |(name, tool, input): (&str, &'static str, Value)| {
        Attack::new(format!("search: {name}"), "ask").before(ways).call(tool, input).any()
    };
    let table = [
        ("grep everything", "grep", json!({"pattern": "canary"})),
        ("grep a link", "grep", json!({"pattern": "canary", "path": "way"})),
        ("grep a linked file", "grep", json!({"pattern": "canary", "path": "key"})),
        ("grep outside", "grep", json!({"pattern": "canary", "path": "{home}"})),
        ("grep hidden files", "grep", json!({"pattern": "canary", "path": ".."})),
        ("glob through a link", "glob", json!({"pattern": "way/**/*"})),
        ("list a link", "list_directory", json!({"path": "way/.ssh"})),
        ("read a link", "read_file", json!({"path": "key"})),
        ("read through a folder", "read_file", json!({"path": "a/deep/credentials"})),
        ("read own variables", "read_file", json!({"path": "/proc/self/environ"})),
        ("read own memory", "read_file", json!({"path": "/proc/self/maps"})),
        ("cat a link", "bash", json!({"command": "cat key"})),
        ("cat through a folder", "bash", json!({"command": "cat way/.aws/credentials"})),
        ("grep in a shell", "bash", json!({"command": "grep -R canary way/"})),
        ("find in a shell", "bash", json!({"command": "find -L . -name 'id_*' | head"})),
        ("git diff without index", "bash", json!({"command": "git diff --no-index /dev/null key"})),
        ("cat own variables", "bash", json!({"command": "cat /proc/self/environ"})),
        ("cat variables of the agent", "bash", json!({"command": "cat /proc/$PPID/environ"})),
        (
            "echo a variable",
            "bash",
            json!({"command": "echo $GITHUB_TOKEN $ANTHROPIC_API_KEY $DEPLOY_PASSWORD"}),
        ),
    ];
    try_all(table.into_iter().map(case).collect()).await;
}

//! Files by which tools, editors, agents and build services start programs when a folder is opened or entered, a branch is
//! pushed or a commit is made.

use serde_json::json;

use crate::{attack::Attack, round8_killed::kernels, scene::Kernel, trial_runner::try_all};

/// Files at the root that start programs without a build: when a shell enters the folder, an editor opens it, an agent or a
/// build service works on it, or git makes a commit.
const FILES: &[&str] = &[
    // Shells that enter the folder.
    ".envrc",
    "mise.toml",
    ".mise.toml",
    "mise.local.toml",
    ".mise/config.toml",
    ".config/mise/config.toml",
    ".config/mise.toml",
    ".autoenv.zsh",
    ".autoenv",
    // Editors.
    ".vscode/tasks.json",
    "app.code-workspace",
    ".exrc",
    ".nvimrc",
    ".nvim.lua",
    ".vimrc",
    ".lvimrc",
    ".dir-locals.el",
    ".helix/languages.toml",
    ".helix/config.toml",
    ".zed/tasks.json",
    ".fleet/run.json",
    "app.sublime-project",
    ".vs/tasks.vs.json",
    ".devcontainer.json",
    ".devcontainer/devcontainer.json",
    ".gitpod.yml",
    ".replit",
    "devfile.yaml",
    ".devfile.yaml",
    ".codesandbox/tasks.json",
    ".idx/dev.nix",
    // Agents.
    ".mcp.json",
    ".claude/settings.local.json",
    ".cursor/mcp.json",
    ".windsurf/mcp.json",
    ".roo/mcp.json",
    ".kilocode/mcp.json",
    ".continue/config.json",
    ".aider.conf.yml",
    ".gemini/settings.json",
    ".qwen/settings.json",
    ".codex/config.toml",
    ".opencode/config.json",
    "opencode.json",
    ".crush.json",
    "crush.json",
    ".junie/mcp/mcp.json",
    ".amazonq/mcp.json",
    ".trae/mcp.json",
    ".factory/mcp.json",
    ".openhands/setup.sh",
    ".augment/settings.json",
    ".vscode/mcp.json",
    // Hooks of git.
    ".husky/pre-commit",
    ".pre-commit-config.yaml",
    "lefthook.yml",
    ".lefthook.yml",
    "lefthook-local.yml",
    ".overcommit.yml",
    "captainhook.json",
    "grumphp.yml",
    "prek.toml",
    // Build services.
    ".github/workflows/x.yml",
    ".github/actions/x/action.yml",
    ".gitlab-ci.yml",
    ".gitea/workflows/x.yml",
    ".forgejo/workflows/x.yml",
    ".circleci/config.yml",
    ".travis.yml",
    "appveyor.yml",
    ".appveyor.yml",
    "azure-pipelines.yml",
    ".azure-pipelines/x.yml",
    "bitbucket-pipelines.yml",
    ".drone.yml",
    ".woodpecker.yml",
    ".woodpecker/x.yml",
    ".buildkite/pipeline.yml",
    ".semaphore/semaphore.yml",
    ".cirrus.yml",
    ".tekton/x.yaml",
    ".teamcity/settings.kts",
    "cloudbuild.yaml",
    "buildspec.yml",
    ".build.yml",
    ".builds/x.yml",
    "codemagic.yaml",
    "Jenkinsfile",
    "wercker.yml",
    ".harness/x.yaml",
    // Version control beside git, and package managers that run what a file names.
    ".hg/hgrc",
    ".jj/repo/config.toml",
    ".sl/config",
    ".npmrc",
    ".yarnrc.yml",
    ".yarnrc",
    ".pnpmfile.cjs",
    ".cargo/config.toml",
    ".cargo/config",
    ".bazelrc",
    ".bazeliskrc",
    "tools/bazel",
    ".mvn/extensions.xml",
    ".mvn/jvm.config",
    ".mvn/maven.config",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_tool_call_writes_a_file_that_starts_programs_unasked() {
    let cases = FILES.chunks(25).enumerate().flat_map(|(number, files)| {
        ["accept-edits", "full-auto"].map(|mode| {
            let attack = Attack::new(format!("files that start programs {number}, {mode}"), mode);
            files
                .iter()
                .fold(attack, |attack, path| {
                    attack.call("write_file", json!({"path": path, "content": "PWN"}))
                })
                .refused()
        })
    });
    try_all(cases.collect()).await;
}

/// The files above are not left by a command either, whether they are new or were there before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_command_leaves_a_file_that_starts_programs() {
    let cases = kernels("files that start programs").into_iter().flat_map(|kernel| {
        let case = |name: &str| {
            let attack = Attack::confined(
                format!("{kernel:?}: {name}"),
                &format!(
                    "for f in {}; do {{ mkdir -p \"$(dirname $f)\" && rm -f $f; echo PWN > $f; }} 2>/dev/null; done",
                    FILES.join(" ")
                ),
            );
            let attack = match kernel {
                Kernel::AsItIs => attack,
                Kernel::WithoutNamespaces => attack.without_namespaces(),
            };
            // An empty folder that a command leaves starts nothing.
            attack.after(&format!(
                "for f in {}; do if grep -qs PWN $f; then echo left: $f >&2; bad=1; fi; done; [ -z \"$bad\" ]",
                FILES.join(" ")
            ))
        };
        let before = FILES.iter().fold(case("existing files"), |attack, path| {
            attack.file(path, "mine\n")
        });
        [case("new files"), before]
    });
    try_all(cases.collect()).await;
}

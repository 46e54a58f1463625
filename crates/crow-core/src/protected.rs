//! Files of a project that start programs or instruct agents: their names and how they are treated.
//!
//! Listed are names that editors, shells, version control, agents and build services look for by themselves when a
//! person opens a directory, enters it, commits or pushes. Source code and build files (`Makefile`, `package.json`,
//! `build.rs`) are not listed: they run only when the project is built, and changing them is the agent's work. Also
//! not listed are `rust-toolchain.toml`, `flake.nix`, `devenv.nix`, `devbox.json` and `.bundle/config`, and files
//! that builds write themselves (`.pnp.cjs`): SECURITY.md names them as not protected.

use std::path::{Component, Path};

use crow_text::is_unseen;

/// The reason why a path is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProtectedKind {
    /// It only tells agents what to do. File tools ask before they change it, even where edits are allowed. Commands
    /// may change it: checkouts, merges and formatters do so routinely, a partial checkout is worse, and nothing
    /// starts by itself.
    InstructsAgents,
    /// An editor, a shell, git, an agent or a build service starts programs that it names. File tools ask before they
    /// change it, even where edits are allowed, and the sandbox denies commands write access.
    StartsPrograms,
}

/// Paths relative to a root of a workspace that start programs, in addition to `.git`. The sandbox denies commands
/// write access to them; file tools ask about them at the root and below it.
pub const PROTECTED: &[&str] = &[
    // Agents: servers of tools, hooks, permissions.
    ".crow-agent",
    ".mcp.json",
    ".claude",
    // Instructions of skills, on which the trust in the project depends.
    ".agents/skills",
    ".claude.json",
    ".codex",
    ".gemini",
    ".qwen",
    ".opencode",
    "opencode.json",
    "opencode.jsonc",
    ".opencode.json",
    ".cursor",
    ".windsurf",
    ".continue",
    ".continuerc.json",
    ".clinerules",
    ".roo",
    ".kilocode",
    ".kiro",
    ".amazonq",
    ".augment",
    ".junie",
    ".trae",
    ".tabnine",
    ".factory",
    ".openhands",
    ".pi",
    ".amp",
    ".iflow",
    ".codebuddy",
    ".vibe",
    ".mux",
    ".grok",
    ".superset",
    // Scripts that an application for agents runs when it creates a workspace.
    "conductor.json",
    ".crush.json",
    "crush.json",
    ".aider.conf.yml",
    "gptme.toml",
    // Editors: tasks, language servers, code that is read when a directory or a file is opened.
    ".vscode",
    ".idea",
    ".zed",
    ".fleet",
    ".nova",
    ".lapce",
    ".helix",
    ".vs",
    ".kateproject",
    ".theia",
    ".lite_project.lua",
    ".externalToolBuilders",
    // Servers that editors start: build servers, and the commands that rust-analyzer runs.
    ".bsp",
    "rust-analyzer.toml",
    "buildServer.json",
    ".sourcekit-lsp",
    ".factorypath",
    ".bloop",
    ".rust-analyzer.toml",
    ".ropeproject",
    ".vim",
    ".vimrc",
    ".gvimrc",
    ".nvim.lua",
    ".nvimrc",
    ".lazy.lua",
    ".exrc",
    ".lvimrc",
    ".local.vimrc",
    ".dir-locals.el",
    ".dir-locals-2.el",
    ".devcontainer",
    ".devcontainer.json",
    ".idx",
    ".gitpod.yml",
    // Commands that run when the workspace is opened or its button is pressed.
    ".replit",
    // Shells and interpreters that read a file of the directory they are started in.
    ".envrc",
    ".mise.toml",
    ".mise.local.toml",
    ".mise",
    "mise.toml",
    "mise.local.toml",
    ".config/mise.toml",
    ".config/mise",
    ".config/mise.local.toml",
    "mise/config.toml",
    "mise/config.local.toml",
    // The former name of mise.
    ".rtx.toml",
    ".rtx.local.toml",
    ".rtx",
    ".config/rtx",
    ".tool-versions",
    ".prototools",
    // Sourced by autoenv and similar programs when a shell enters or leaves the directory.
    ".autoenv",
    ".autoenv.leave",
    ".autoenv.zsh",
    ".autoenv_leave.zsh",
    ".env.leave",
    ".env.zsh",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".Rprofile",
    ".Renviron",
    ".RData",
    ".iex.exs",
    ".ocamlinit",
    ".gdbinit",
    ".lldbinit",
    ".ghci",
    ".irbrc",
    ".pryrc",
    ".byebugrc",
    ".octaverc",
    "startup.m",
    ".rvmrc",
    ".jvmopts",
    ".sbtrc",
    ".sbtopts",
    ".lintstagedrc",
    ".lintstagedrc.json",
    ".lintstagedrc.yaml",
    ".lintstagedrc.yml",
    ".lintstagedrc.js",
    ".lintstagedrc.cjs",
    ".lintstagedrc.mjs",
    ".codesandbox/tasks.json",
    ".gitpod/automations.yaml",
    ".ona/automations.yaml",
    "devfile.yaml",
    ".devfile.yaml",
    ".pdbrc",
    ".perldb",
    ".shadowenv.d",
    // Language servers: commands that they start to find out how a project is built.
    "hie.yaml",
    ".lsp/config.edn",
    // Other version control systems: hooks, editors and pagers of a clone, and which repository's settings apply.
    ".hg/hgrc",
    ".hg/hgrc-not-shared",
    ".hg/sharedpath",
    ".jj/repo/config.toml",
    ".jj/workspace-config.toml",
    ".sl/config",
    ".sl/sharedpath",
    ".pijul/config",
    "_darcs/prefs/defaults",
    // Git: programs that its own settings commonly refer to.
    ".gitconfig",
    ".lazygit.yml",
    ".githooks",
    ".husky",
    // Hooks of husky before version 5.
    ".huskyrc",
    ".huskyrc.json",
    ".huskyrc.js",
    ".huskyrc.cjs",
    ".huskyrc.yml",
    ".huskyrc.yaml",
    "husky.config.js",
    "husky.config.cjs",
    // Command lines that the next installation writes into hooks.
    ".simple-git-hooks.json",
    ".simple-git-hooks.js",
    ".simple-git-hooks.cjs",
    "simple-git-hooks.json",
    "simple-git-hooks.js",
    "simple-git-hooks.cjs",
    ".pre-commit-config.yaml",
    ".pre-commit-config.yml",
    "hk.pkl",
    "hk.local.pkl",
    ".config/hk.pkl",
    ".hk.pkl",
    ".hk-hooks",
    "captainhook.json",
    ".rusty-hook.toml",
    "grumphp.yml",
    ".trunk",
    "prek.toml",
    ".overcommit.yml",
    ".lefthook",
    ".lefthook-local",
    "lefthook.yml",
    "lefthook.yaml",
    "lefthook.toml",
    "lefthook.json",
    "lefthook-local.yml",
    "lefthook-local.yaml",
    "lefthook-local.toml",
    "lefthook-local.json",
    ".lefthook.yml",
    ".lefthook.yaml",
    ".lefthook.toml",
    ".lefthook.json",
    ".lefthook-local.yml",
    ".lefthook-local.yaml",
    ".lefthook-local.toml",
    ".lefthook-local.json",
    ".config/lefthook.yml",
    ".config/lefthook.yaml",
    ".config/lefthook.toml",
    ".config/lefthook.json",
    ".config/lefthook-local.yml",
    ".config/lefthook-local.yaml",
    ".config/lefthook-local.toml",
    ".config/lefthook-local.json",
    // Package managers: settings that replace the programs which they start, or the sources of code.
    ".cargo/config",
    ".cargo/config.toml",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pnpmfile.cjs",
    ".pnpmfile.mjs",
    // Scripts that are loaded before each program of bun, and package sources.
    "bunfig.toml",
    // Build tools: programs that are started instead of the tool, or code that is loaded into it, at each call.
    "tools/bazel",
    ".bazelrc",
    ".bazeliskrc",
    ".mvn/jvm.config",
    ".mvn/maven.config",
    ".mvn/extensions.xml",
    // Plugin directories that each call of ansible loads.
    "ansible.cfg",
    // Build services: commands that run on other machines, with the keys of the project.
    ".github",
    ".gitlab",
    ".gitlab-ci.yml",
    ".circleci",
    ".travis.yml",
    ".drone.yml",
    ".drone.yaml",
    ".drone.star",
    ".drone.jsonnet",
    ".woodpecker",
    ".woodpecker.yml",
    ".woodpecker.yaml",
    ".forgejo",
    ".gitea",
    ".buildkite",
    "buildkite.yml",
    "buildkite.yaml",
    ".buildkite.yml",
    ".buildkite.yaml",
    ".semaphore",
    ".teamcity",
    ".tekton",
    ".harness",
    ".azuredevops",
    ".azure-pipelines",
    "azure-pipelines.yml",
    "azure-pipelines.yaml",
    "bitbucket-pipelines.yml",
    ".cirrus.yml",
    ".cirrus.star",
    ".appveyor.yml",
    "appveyor.yml",
    ".build.yml",
    ".builds",
    ".zuul.yaml",
    "zuul.yaml",
    "zuul.d",
    ".zuul.d",
    ".codefresh",
    ".screwdriver.yaml",
    "screwdriver.yaml",
    "buildspec.yml",
    "cloudbuild.yaml",
    "cloudbuild.yml",
    "cloudbuild.json",
    "codemagic.yaml",
    "bitrise.yml",
    "wercker.yml",
    "bamboo-specs",
    "codeship-services.yml",
    "codeship-steps.yml",
    "codeship-steps.json",
    ".space.kts",
    "ci_scripts",
    ".eas",
    ".readthedocs.yaml",
    ".readthedocs.yml",
    ".vela.yml",
    ".vela.yaml",
    ".evergreen.yml",
    ".onedev-buildspec.yml",
    ".gocd.yaml",
    ".gocd.yml",
    ".packit.yaml",
    ".packit.yml",
    "packit.yaml",
    "packit.yml",
    ".copr/Makefile",
    ".obs/workflows.yml",
    ".crow",
    ".crow.yaml",
    ".crow.yml",
    ".prow",
    ".prow.yaml",
    "Jenkinsfile",
];

/// Suffixes of names of files that start programs: tasks and build systems of editors.
pub const PROTECTED_SUFFIXES: &[&str] = &[".code-workspace", ".sublime-project"];

/// Names of files and directories that only instruct agents, which read them at any depth.
pub const AGENT_INSTRUCTIONS: &[&str] = &[
    "AGENTS.md",
    "AGENTS.override.md",
    "AGENTS.local.md",
    "AGENT.md",
    "CLAUDE.md",
    "CLAUDE.local.md",
    "GEMINI.md",
    "QWEN.md",
    "CRUSH.md",
    "CRUSH.local.md",
    "OPENCODE.md",
    "WARP.md",
    ".rules",
    ".agents",
    ".aiassistant",
    ".cursorrules",
    ".windsurfrules",
    ".roorules",
    ".roomodes",
    ".kilocodemodes",
    ".continuerules",
    ".goosehints",
    ".augment-guidelines",
];

/// The repository's directory, or the file that refers to it.
const GIT: &str = ".git";

/// Returns why a path relative to a root of the workspace is protected, by its own name or that of a parent directory.
///
/// Names match at any depth, because most of those programs look into the directory that is opened, or into each
/// directory. Names are compared like on file systems that ignore case and invisible characters. If several kinds
/// match, the stronger one ([`ProtectedKind::StartsPrograms`]) is returned.
pub fn protected_kind(relative: &Path) -> Option<ProtectedKind> {
    let names: Vec<String> = relative
        .components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(folded(&name.to_string_lossy())),
            Component::Prefix(_)
            | Component::RootDir
            | Component::CurDir
            | Component::ParentDir => None,
        })
        .collect();
    let kinds = (0..names.len()).filter_map(|start| kind_at(names.get(start..)?));
    kinds.max()
}

/// Returns the kind of the path that begins with the first of these names.
fn kind_at(names: &[String]) -> Option<ProtectedKind> {
    let name = names.first()?;
    let is_listed = |listed: &&str| begins_with(names, listed);
    let has_suffix = |suffix: &&str| name.ends_with(suffix);
    if begins_with(names, GIT)
        || PROTECTED.iter().any(is_listed)
        || PROTECTED_SUFFIXES.iter().any(has_suffix)
    {
        return Some(ProtectedKind::StartsPrograms);
    }
    AGENT_INSTRUCTIONS.iter().any(is_listed).then_some(ProtectedKind::InstructsAgents)
}

/// Returns true if the first names of a path are the components of `listed`, which may have several.
fn begins_with(names: &[String], listed: &str) -> bool {
    let mut names = names.iter();
    listed.split('/').all(|part| names.next().is_some_and(|name| name.eq_ignore_ascii_case(part)))
}

/// Normalizes a name like file systems that ignore case; some ignore invisible characters, too.
fn folded(name: &str) -> String {
    // NTFS reads only the part before a colon, and ignores dots and blanks at the end.
    let name = name.split(':').next().unwrap_or(name).trim_end_matches(['.', ' ']);
    // The short (8.3) name of `.git`, where such names are created.
    if name.eq_ignore_ascii_case("git~1") {
        return GIT.to_owned();
    }
    if name.is_ascii() {
        return name.to_ascii_lowercase();
    }
    let letters = name.chars().filter(|char| !is_unseen(*char));
    let folded = letters.map(|char| match char {
        '\u{17f}' => 's',
        // The Kelvin sign.
        '\u{212a}' => 'k',
        _ => char,
    });
    folded.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(path: &str) -> Option<ProtectedKind> {
        protected_kind(Path::new(path))
    }

    #[test]
    fn files_that_start_programs_are_protected_at_any_depth() {
        for path in [
            ".git/config",
            ".husky/pre-commit",
            ".pre-commit-config.yaml",
            "lefthook.yml",
            ".devcontainer/devcontainer.json",
            ".devcontainer.json",
            ".dir-locals-2.el",
            "x.code-workspace",
            "sub/My Project.Code-Workspace",
            "game.sublime-project",
            "bitbucket-pipelines.yml",
            ".cargo/config.toml",
            ".cargo/config",
            "crates/a/.cargo/config.toml",
            ".npmrc",
            "web/.npmrc",
            "sub/.envrc",
            "sub/.vscode/tasks.json",
            "a/b/.dir-locals.el",
            ".kiro/hooks/x.json",
            "opencode.json",
            ".clinerules/hooks/PreToolUse",
            ".config/mise/config.toml",
            ".VSCODE/tasks.json",
            ".v\u{200c}scode/tasks.json",
            ".v\u{17f}code/tasks.json",
            ".\u{212a}iro/hooks",
            ".git./config",
            ".git /config",
            ".git. ./config",
            "GIT~1/config",
            ".git::$INDEX_ALLOCATION/config",
            ".hg/hgrc",
            ".jj/repo/config.toml",
            "sub/bunfig.toml",
            ".config/lefthook.yml",
            ".simple-git-hooks.json",
            ".huskyrc",
            "tools/bazel",
            ".mvn/jvm.config",
            ".autoenv.zsh",
            "hie.yaml",
            "_darcs/prefs/defaults",
            ".vscode./tasks.json",
        ] {
            assert_eq!(kind(path), Some(ProtectedKind::StartsPrograms), "{path}");
        }
    }

    #[test]
    fn files_that_instruct_agents_have_a_kind_of_their_own() {
        for path in
            ["AGENTS.md", "CLAUDE.md", "agents.md", "sub/AGENTS.md", ".cursorrules", ".rules/x"]
        {
            assert_eq!(kind(path), Some(ProtectedKind::InstructsAgents), "{path}");
        }
        assert_eq!(kind(".claude/CLAUDE.md"), Some(ProtectedKind::StartsPrograms));
        assert_eq!(kind("CLAUDE.md/.envrc"), Some(ProtectedKind::StartsPrograms));
    }

    #[test]
    fn ordinary_files_are_not_protected() {
        for path in [
            "",
            "src/main.rs",
            "Makefile",
            "package.json",
            ".cargo/registry/x",
            ".config/nextest.toml",
            "config.toml",
            ".gitignore",
            ".gitattributes",
            ".editorconfig",
            "docs/AGENTS.md.txt",
            "git/config",
            "code-workspace",
            ".eslintrc",
            "rust-toolchain.toml",
            "rust-toolchain",
            "flake.nix",
            "devenv.nix",
            "devbox.json",
            ".bundle/config",
            ".pnp.cjs",
            ".run/test.run.xml",
            ".hg/store/data",
            ".jj/repo/op_store/x",
            "tools/bazel.py",
            ".mvn/wrapper/maven-wrapper.properties",
        ] {
            assert_eq!(kind(path), None, "{path}");
        }
    }

    #[test]
    fn each_name_is_listed_once_and_in_one_list() {
        let mut names: Vec<_> = PROTECTED.iter().chain(AGENT_INSTRUCTIONS).collect();
        names.sort();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(names.iter().all(|name| !name.starts_with('/') && !name.ends_with('/')));
    }
}

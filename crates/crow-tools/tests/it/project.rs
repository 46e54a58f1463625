//! A small project with files of many languages, in which shell lines are planned.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crow_core::{
    ids::{CallId, SessionId},
    permission::{CallFacts, Decision, PermissionMode, PermissionPolicy, PermissionRule, RuleSet},
    tool::{CallPlan, CommandLine, Effects, Subject, ToolCategory},
    workspace::Workspace,
};
use crow_tools::plan_command_line;
use serde_json::Value;

const FILES: [&str; 50] = [
    ".crow-agent/rules.json",
    ".env",
    ".env.example",
    ".env.local",
    ".git/HEAD",
    ".git/config",
    ".github/workflows/ci.yml",
    ".gitignore",
    "CHANGELOG.md",
    "CMakeLists.txt",
    "Cargo.lock",
    "Cargo.toml",
    "Dockerfile",
    "Makefile",
    "README.md",
    "a.json",
    "a.txt",
    "b.txt",
    "benches/parse.rs",
    "build.log",
    "certs/server.key",
    "certs/server.pem",
    "cmd/server/main.go",
    "crates/cli/Cargo.toml",
    "crates/cli/src/main.rs",
    "crates/core/Cargo.toml",
    "crates/core/src/lib.rs",
    "data/input.csv",
    "data/users.json",
    "docker-compose.yml",
    "docs/api.md",
    "docs/guide.md",
    "evil/.git/config",
    "go.mod",
    "internal/store/store.go",
    "logs/app.log",
    "package.json",
    "py/app.py",
    "py/tests/test_app.py",
    "pyproject.toml",
    "requirements.txt",
    "scripts/build.sh",
    "scripts/release.py",
    "src/config.rs",
    "src/lib.rs",
    "src/main.rs",
    "src/parser/mod.rs",
    "tests/it.rs",
    "tsconfig.json",
    "web/src/App.tsx",
];

/// Returns the policy of full-auto with rules.
pub(crate) fn full_auto_with(rules: impl IntoIterator<Item = PermissionRule>) -> PermissionPolicy {
    PermissionPolicy::new(PermissionMode::FullAuto).with_rules(RuleSet::new(rules).unwrap())
}

/// A project in a temporary folder. The folder `../other` beside it is not part of the workspace.
pub(crate) struct Project {
    _folder: tempfile::TempDir,
    pub(crate) root: PathBuf,
    pub(crate) workspace: Workspace,
}

impl Project {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap().join("project");
        for name in FILES.iter().copied().chain([
            "web/src/index.ts",
            "web/package.json",
            "../other/Cargo.toml",
        ]) {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x\n").unwrap();
        }
        // Ignores the secrets, as most projects do, so that searches that respect it skip them.
        fs::write(root.join(".gitignore"), ".env*\n!.env.example\n/certs/\n").unwrap();
        let workspace = Workspace::new(root.clone());
        Self { _folder: folder, root, workspace }
    }

    /// Plans a line that starts in the project's root.
    pub(crate) fn line(&self, text: &str) -> CommandLine {
        plan_command_line(text, &self.root, &self.workspace, None)
    }

    pub(crate) fn decide(&self, policy: &PermissionPolicy, line: &CommandLine) -> Decision {
        let plan = CallPlan {
            title: String::new(),
            effects: Effects::Unknown,
            subject: Subject::Command(line.clone()),
        };
        let facts = CallFacts {
            call_id: &CallId::new("call"),
            session_id: &SessionId::new("session"),
            agent: "builder",
            input: &Value::Null,
            tool: "bash",
            category: ToolCategory::Execute,
            requires_permission: true,
            plan: &plan,
        };
        policy.decide(facts, &self.workspace)
    }

    /// Returns those of `lines` that a policy allows.
    pub(crate) fn allowed_lines<'t>(
        &self,
        policy: &PermissionPolicy,
        lines: &[&'t str],
    ) -> Vec<&'t str> {
        let is_allowed =
            |text: &&str| matches!(self.decide(policy, &self.line(text)), Decision::Allow(_));
        lines.iter().copied().filter(is_allowed).collect()
    }

    /// Creates a symbolic link in the project.
    pub(crate) fn link(&self, name: &str, target: impl AsRef<Path>) {
        std::os::unix::fs::symlink(target, self.root.join(name)).unwrap();
    }
}

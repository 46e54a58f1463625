//! What is measured: a program that talks to the server.

use std::{
    fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Instant,
};

use crow_testkit::{ModelServer, WireDialect};
use tempfile::TempDir;

const HOME: &str = "home";
const PROJECT: &str = "project";

/// A program that talks to the server.
pub(crate) struct BenchClient {
    program: PathBuf,
    /// Mode of the bare loop; `None` for Crow.
    bare_mode: Option<&'static str>,
    /// Home and project of all its runs.
    folder: TempDir,
}

/// A started client.
pub(crate) struct Started {
    pub(crate) child: Child,
    pub(crate) at: Instant,
}

impl BenchClient {
    pub(crate) fn crow(program: PathBuf) -> Self {
        Self { program, bare_mode: None, folder: folders() }
    }

    pub(crate) fn bare(mode: &'static str) -> Self {
        let program = std::env::current_exe().unwrap();
        Self { program, bare_mode: Some(mode), folder: folders() }
    }

    /// Fills the project with so many files, ten in a folder.
    pub(crate) fn fill_project(&self, files: usize) {
        for number in 0..files {
            let folder = self.project().join((number / 10).to_string());
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(format!("{number}.txt")), format!("{number}\n").repeat(100))
                .unwrap();
        }
    }

    /// Gives the user agents of their own.
    pub(crate) fn add_agents(&self, count: usize) {
        let folder = self.home().join(".config/crow-agent/agents/base");
        fs::create_dir_all(&folder).unwrap();
        for n in 0..count {
            let role = if n % 2 == 0 { "subagent" } else { "primary" };
            let text = format!(
                "[agent]\nname = \"own-{n}\"\nrole = \"{role}\"\ndescription = \"looks at part {n}\"\n\n[tools]\nenabled = [\"read_file\", \"grep\", \"bash\"]\n\n[prompt]\nsystem = \"You look at part {n} of the project.\"\n"
            );
            fs::write(folder.join(format!("own-{n}.toml")), text).unwrap();
        }
    }

    /// Gives the user a hook before each call.
    pub(crate) fn add_hook(&self) {
        let hooks = serde_json::json!({ "hooks": { "PreToolUse": [
            { "matcher": "Bash", "hooks": [{ "type": "command", "command": "true" }] },
        ] } });
        let folder = self.home().join(".config/crow-agent");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("hooks.json"), hooks.to_string()).unwrap();
    }

    /// Removes what [`Self::add_hook`] added.
    pub(crate) fn remove_hook(&self) {
        fs::remove_file(self.home().join(".config/crow-agent/hooks.json")).unwrap();
    }

    /// Gives the user skills, with descriptions as long as those of public ones.
    pub(crate) fn add_skills(&self, count: usize) {
        for n in 0..count {
            let folder = self.home().join(format!(".config/crow-agent/skills/skill-{n}"));
            fs::create_dir_all(&folder).unwrap();
            let description = format!(
                "Reads and writes documents of the kind {n} with tables, forms, comments and pictures. Use it whenever the user \
                 mentions such a file, or asks for one to be made, filled in, split, merged or checked."
            );
            let text =
                format!("---\nname: skill-{n}\ndescription: {description}\n---\n\n# Skill {n}\n");
            fs::write(folder.join("SKILL.md"), text).unwrap();
        }
    }

    /// Removes what [`Self::add_skills`] added.
    pub(crate) fn remove_skills(&self) {
        fs::remove_dir_all(self.home().join(".config/crow-agent/skills")).unwrap();
    }

    /// Starts a run against the server.
    pub(crate) fn start(&self, server: &ModelServer) -> Started {
        let url = server.base_url(WireDialect::AnthropicMessages);
        let mut command = self.command();
        if let Some(mode) = self.bare_mode {
            command.args([mode, &url]);
        } else {
            let run = [
                "run",
                "work",
                "-m",
                "anthropic/claude-sonnet-4-5",
                "-p",
                "full-auto",
                "--max-steps",
                "5000",
            ];
            command.args(run).env("ANTHROPIC_API_KEY", "sk-bench").env("ANTHROPIC_BASE_URL", url);
        }
        let at = Instant::now();
        Started { child: command.spawn().unwrap(), at }
    }

    /// Runs the program with other arguments to its end and returns how long it took.
    pub(crate) fn time(&self, args: &[&str]) -> std::time::Duration {
        let begun = Instant::now();
        self.command().args(args).status().unwrap();
        begun.elapsed()
    }

    pub(crate) fn program(&self) -> &PathBuf {
        &self.program
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join(HOME)
    }

    fn project(&self) -> PathBuf {
        self.folder.path().join(PROJECT)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .current_dir(self.project())
            .env_clear()
            // As if it was started from a shell: else the login shell is asked first.
            .env("SHLVL", "1")
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.home())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }
}

/// Makes a home and a project beside it: in a home nothing is captured.
fn folders() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in [HOME, PROJECT] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    folder
}

//! The test environment of one case: a home, a hostile project, and the files and sockets around them.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
};

use crow_testkit::telemetry::TelemetryCollector;
use tempfile::TempDir;

use crate::canaries::{FILE_SECRET, KEY, Listeners, VARIABLE_SECRET};

/// A home, a project, a folder outside both, and the listeners of the host.
///
/// The program sends its telemetry to a collector, which is held against the conventions at the end.
pub(crate) struct Scene {
    _folder: TempDir,
    base: PathBuf,
    /// Unique text in the command line of every process that a case may leave running.
    pub(crate) mark: String,
    pub(crate) listeners: Listeners,
    collector: TelemetryCollector,
}

/// Secret files in the home, relative to it.
const PRIVATE: [&str; 12] = [
    ".ssh/id_ed25519",
    ".aws/credentials",
    ".netrc",
    ".config/gh/hosts.yml",
    ".docker/config.json",
    ".bash_history",
    ".claude.json",
    ".config/github-copilot/hosts.json",
    ".cache/huggingface/token",
    "snap/firefox/common/.mozilla/firefox/x/logins.json",
    ".local/share/fish/fish_history",
    ".fly/config.yml",
];
/// Files of a new git repository, written without starting git.
const REPOSITORY: [(&str, &str); 3] = [
    (".git/HEAD", "ref: refs/heads/main\n"),
    (".git/config", "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n"),
    (".git/hooks/pre-commit.sample", "#!/bin/sh\n"),
];

const EXE: &str = env!("CARGO_BIN_EXE_crow-agent");

/// The kernel that the program finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kernel {
    AsItIs,
    /// No namespaces can be created, as in most containers: Landlock and seccomp remain.
    WithoutNamespaces,
}

/// Script that starts its program, named in `$0`, where no namespaces can be created. The limit applies only to the user
/// namespace of the script; without its capabilities the program cannot use that one instead.
const NO_NAMESPACES: &str = "echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all --inh-caps=-all --no-new-privs \"$0\" \"$@\"";

/// Returns a temporary folder that sandboxed commands can see. They cannot see the system's temporary folders, which the
/// sandbox replaces with private ones.
pub(crate) fn visible_temp_dir() -> TempDir {
    let own = Path::new(env!("CARGO_TARGET_TMPDIR"));
    if own.starts_with("/tmp") { tempfile::tempdir() } else { tempfile::tempdir_in(own) }.unwrap()
}

impl Scene {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let folder = visible_temp_dir();
        let base = folder.path().canonicalize().unwrap();
        let mark =
            format!("crow-case-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        for name in ["home", "project", "out", "home/.config", "home/.local/share"] {
            fs::create_dir_all(base.join(name)).unwrap();
        }
        let listeners = Listeners::new(&base.join("out/socket"), &mark);
        let scene =
            Self { _folder: folder, base, mark, listeners, collector: TelemetryCollector::start() };
        for name in PRIVATE {
            scene.write(&format!("{{home}}/{name}"), FILE_SECRET);
        }
        scene.write("{out}/victim", "untouched\n");
        for (name, text) in REPOSITORY {
            scene.write(&format!("{{project}}/{name}"), text);
        }
        fs::create_dir_all(scene.project().join(".git/objects")).unwrap();
        fs::create_dir_all(scene.project().join(".git/refs/heads")).unwrap();
        scene
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.base.join("project")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.base.join("home")
    }

    pub(crate) fn out(&self) -> PathBuf {
        self.base.join("out")
    }

    /// Replaces the placeholders in a text with the paths, ports and names of this scene.
    pub(crate) fn fill(&self, text: &str) -> String {
        let port =
            |address: std::io::Result<std::net::SocketAddr>| address.unwrap().port().to_string();
        let base = self.base.to_str().unwrap();
        text.replace("{out}", &format!("{base}/out"))
            .replace("{home}", &format!("{base}/home"))
            .replace("{data}", &format!("{base}/home/.local/share/crow-agent"))
            .replace("{config}", &format!("{base}/home/.config/crow-agent"))
            .replace("{project}", &format!("{base}/project"))
            .replace("{tcp}", &port(self.listeners.tcp.local_addr()))
            .replace("{udp}", &port(self.listeners.udp.local_addr()))
            .replace("{mark}", &self.mark)
            .replace("{key}", KEY)
    }

    /// Writes a file; a relative path starts at the project. A text that begins with `#!` becomes executable.
    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.project().join(self.fill(path));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, self.fill(text)).unwrap();
        let mode = if text.starts_with("#!") { 0o755 } else { 0o600 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Runs the attacker's preparation script, which must succeed.
    pub(crate) fn prepare(&self, script: &str) {
        let failed = self.run_script(script);
        assert!(failed.is_none(), "{}", failed.unwrap_or_default());
    }

    /// Restores access to directories of the project that a command closed, for the user's script and the checks.
    pub(crate) fn reopen_directories(&self) {
        let mut open = vec![self.project()];
        while let Some(folder) = open.pop() {
            let is_closed = |mode: u32| mode & 0o700 != 0o700;
            // A path that is too long cannot be opened and is skipped.
            let Ok(found) = fs::symlink_metadata(&folder) else { continue };
            if is_closed(found.permissions().mode()) {
                fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
            }
            let inner = fs::read_dir(&folder).into_iter().flatten().flatten();
            let is_folder =
                |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
            open.extend(inner.filter(is_folder).map(|entry| entry.path()));
        }
    }

    /// Runs a script outside of any sandbox. Returns the script and its stderr if it failed.
    pub(crate) fn run_script(&self, script: &str) -> Option<String> {
        let done = self
            .with_clean_env(Command::new("bash"))
            .args(["-ec", &self.fill(script)])
            // If the project has no repository left, git must not find the one that contains this test.
            .env("GIT_CEILING_DIRECTORIES", &self.base)
            .output()
            .unwrap();
        (!done.status.success())
            .then(|| format!("{script}: {}", String::from_utf8_lossy(&done.stderr)))
    }

    /// Returns a command that runs the program in the project, with secrets in its environment.
    pub(crate) fn program(&self, args: &[String]) -> Command {
        self.program_on(Kernel::AsItIs, args)
    }

    /// Like [`Self::program`], on a kernel that may lack a layer of the sandbox. The process keeps its id.
    pub(crate) fn program_on(&self, kernel: Kernel, args: &[String]) -> Command {
        let command = match kernel {
            Kernel::AsItIs => self.with_clean_env(Command::new(EXE)),
            Kernel::WithoutNamespaces => self.program_behind("--user", NO_NAMESPACES),
        };
        self.with_secrets(command, args)
    }

    /// Like [`Self::program`], after a script that mounts file systems in a mount namespace of its own.
    pub(crate) fn program_behind_mounts(&self, script: &str, args: &[String]) -> Command {
        let script = format!("set -e; {}; exec \"$0\" \"$@\"", self.fill(script));
        self.with_secrets(self.program_behind("--mount", &script), args)
    }

    /// Returns a command that starts the program by a script in a new namespace of users, and in another one.
    fn program_behind(&self, namespace: &str, script: &str) -> Command {
        let mut command = self.with_clean_env(Command::new("unshare"));
        command.args(["--user", namespace, "--map-root-user", "sh", "-c", script, EXE]);
        command
    }

    /// Adds the arguments, and secrets to the environment.
    fn with_secrets(&self, mut command: Command, args: &[String]) -> Command {
        command
            .args(args)
            .env("ANTHROPIC_API_KEY", KEY)
            .env("GITHUB_TOKEN", VARIABLE_SECRET)
            .env("DEPLOY_PASSWORD", VARIABLE_SECRET)
            .env("SSH_AUTH_SOCK", self.out().join("socket"))
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", self.collector.endpoint())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn with_clean_env(&self, mut command: Command) -> Command {
        let cargo = Path::new(env!("CARGO")).parent().unwrap().to_str().unwrap();
        command
            .env_clear()
            .env("PATH", format!("{cargo}:/usr/local/bin:/usr/bin:/bin"))
            .env("HOME", self.home())
            .env("LANG", "C.UTF-8")
            .current_dir(self.project());
        command
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.collector.check().unwrap();
        }
    }
}

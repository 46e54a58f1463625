//! Confinement of one command.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io,
    path::{Path, PathBuf},
};

use rustix::process::Pid;
use tokio::process::Command;

use super::{
    platform_sandbox::{MacosSandbox, SHELL},
    seatbelt_profile::SeatbeltProfile,
};
use crate::sandbox::{
    CommandLaunch, ProcessLimits, SandboxProfile, SandboxedCommandEnd, autorun::SealedMounts,
    program::Program,
};

/// Environment variables that name the temporary folder.
const TEMP_VARIABLES: [&str; 3] = ["TMPDIR", "TMP", "TEMP"];
/// Shell script that sets limits and then executes the command. Lower limits set by the user or the system
/// stay.
const BOUND: &str = "ulimit -c 0; ulimit -u \"$1\" 2>/dev/null; ulimit -d \"$2\" 2>/dev/null; shift 2; exec \"$0\" \"$@\"";
const KIB: u64 = 1024;

/// Confinement of one command, from before its start until after its end.
#[derive(Debug)]
pub(in crate::sandbox) struct MacosConfinement {
    seatbelt: PathBuf,
    profile: String,
    limits: ProcessLimits,
    temp: PathBuf,
}

impl MacosConfinement {
    pub(super) fn new(
        sandbox: &MacosSandbox,
        profile: SandboxProfile,
        shown: &[PathBuf],
        sealed_paths: &SealedMounts,
    ) -> io::Result<Self> {
        let config = &sandbox.config;
        let mut readable = [&sandbox.roots, &sealed_paths.external_git_directories, shown].concat();
        let writable = match profile {
            SandboxProfile::Workspace => {
                [&sandbox.roots[..], &config.writable, &sealed_paths.external_git_directories]
                    .concat()
            }
            SandboxProfile::ReadOnly => Vec::new(),
        };
        let writable: Vec<_> =
            writable.iter().filter_map(|path| path.canonicalize().ok()).collect();
        // The right to change a path includes reading it.
        readable.retain(|path| !writable.contains(path));
        let seatbelt_profile = SeatbeltProfile {
            writable,
            readable: readable.iter().map(|path| resolve_links(path)).collect(),
            hidden: config.hidden.iter().map(|path| resolve_links(path)).collect(),
            sealed: sealed_paths
                .read_only
                .iter()
                .chain(&sealed_paths.absent)
                .map(|path| with_resolved_parent(path))
                .collect(),
            pinned: sealed_paths.pinned.clone(),
            temp: sandbox.temp(),
            network: sandbox.network_access(),
        };
        let text = seatbelt_profile
            .text()
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidFilename, error))?;
        Ok(Self {
            seatbelt: sandbox.seatbelt.clone(),
            profile: text,
            limits: config.limits,
            temp: sandbox.temp(),
        })
    }

    /// Returns the program to start instead of the command: `sandbox-exec` with the profile, a shell that
    /// sets limits, the command.
    pub(in crate::sandbox) fn program(&self, command: Program) -> Program {
        let memory = self.limits.memory / KIB;
        let mut arguments = sandbox_exec_arguments(&self.profile);
        arguments.extend(["-c".into(), BOUND.into(), command.path.into()]);
        arguments.push(self.limits.processes.to_string().into());
        arguments.push(memory.to_string().into());
        arguments.extend(command.arguments);
        Program { path: self.seatbelt.clone(), name: self.seatbelt.clone().into(), arguments }
    }

    /// Fails with `Unsupported`: there is no keeper on macOS.
    #[expect(clippy::needless_pass_by_ref_mut, clippy::unused_self, reason = "so it is on Linux")]
    pub(in crate::sandbox) fn start(&mut self, _launch: &CommandLaunch<'_>) -> io::Result<Pid> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns false: there is no keeper whose end could prevent a start.
    #[expect(clippy::unused_self, reason = "so it is on Linux")]
    pub(in crate::sandbox) fn is_keeper_gone(&self) -> bool {
        false
    }

    /// Does nothing: there is no keeper.
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "so it is on Linux")]
    pub(in crate::sandbox) fn restart_keeper(&self) -> io::Result<()> {
        Ok(())
    }

    /// Makes the command the leader of a process group, by which it is ended.
    #[expect(clippy::needless_pass_by_ref_mut, clippy::unused_self, reason = "so it is on Linux")]
    pub(in crate::sandbox) fn apply(&mut self, command: &mut Command) {
        command.process_group(0);
    }

    /// Returns the environment variables that the sandbox requires: the temporary folder.
    pub(in crate::sandbox) fn variables(&self) -> BTreeMap<&'static str, OsString> {
        TEMP_VARIABLES.map(|name| (name, self.temp.clone().into_os_string())).into_iter().collect()
    }

    /// Returns false: processes that leave the command's group are not ended with it.
    #[expect(clippy::unused_self, reason = "so it is on Linux")]
    pub(in crate::sandbox) fn has_init(&self) -> bool {
        false
    }

    /// Returns `None`: `sandbox-exec` prints its own errors.
    #[expect(clippy::needless_pass_by_ref_mut, clippy::unused_self, reason = "so it is on Linux")]
    pub(in crate::sandbox) fn failure(&mut self) -> Option<String> {
        None
    }

    /// Waits forever: there is no init.
    #[expect(clippy::needless_pass_by_ref_mut, clippy::unused_self, reason = "so it is on Linux")]
    pub(in crate::sandbox) fn wait_for_report(&mut self) -> std::future::Pending<()> {
        std::future::pending()
    }

    /// Returns `None`: the awaited process is the command itself.
    #[expect(clippy::needless_pass_by_ref_mut, clippy::unused_self, reason = "so it is on Linux")]
    pub(in crate::sandbox) fn end(&mut self) -> Option<SandboxedCommandEnd> {
        None
    }
}

/// Returns the arguments of `sandbox-exec` that start a shell under a profile.
pub(super) fn sandbox_exec_arguments(profile: &str) -> Vec<OsString> {
    ["-p", profile, "--", SHELL].map(OsString::from).to_vec()
}

/// Resolves the links of a path that need not exist.
pub(super) fn resolve_links(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| with_resolved_parent(path))
}

/// Resolves the links of a path's parent, but not the last component.
fn with_resolved_parent(path: &Path) -> PathBuf {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => resolve_links(parent).join(name),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use futures_util::FutureExt as _;

    use super::*;
    use crate::sandbox::{
        CommandKind, CommandStreams, SandboxConfig,
        autorun::{AutorunGuard, InventoryScope, KernelSeal},
    };

    struct Place {
        _folder: tempfile::TempDir,
        base: PathBuf,
        sandbox: MacosSandbox,
    }

    impl Place {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let base = folder.path().canonicalize().unwrap();
            fs::create_dir_all(base.join("project/.git/hooks")).unwrap();
            fs::create_dir(base.join("secrets")).unwrap();
            fs::create_dir(base.join("private")).unwrap();
            let config = SandboxConfig {
                hidden: vec![base.join("secrets"), base.join("gone/key")],
                ..SandboxConfig::new(base.join("private"))
            };
            let roots = vec![base.join("project")];
            let private = base.join("private");
            let sandbox =
                MacosSandbox::with("/no/seatbelt".into(), config, &roots, &private).unwrap();
            Self { _folder: folder, base, sandbox }
        }

        fn confine(&self, profile: SandboxProfile) -> io::Result<MacosConfinement> {
            let (_run, sealed) = self.guard().begin("cmd", CommandKind::Foreground);
            MacosConfinement::new(&self.sandbox, profile, &[], &sealed)
        }

        fn guard(&self) -> AutorunGuard {
            let scope = InventoryScope {
                roots: vec![self.base.join("project")],
                ..InventoryScope::default()
            };
            AutorunGuard::new(scope, KernelSeal::Missing, self.base.join("private/held"))
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the shell itself is tested")]
    fn a_command_is_started_under_its_profile_with_its_own_arguments() {
        let place = Place::new();
        let confinement = place.confine(SandboxProfile::Workspace).unwrap();
        let command = Program {
            path: "/bin/echo".into(),
            name: "echo".into(),
            arguments: vec!["-p".into(), "a b".into()],
        };
        let started = confinement.program(command);
        assert_eq!(started.path, Path::new("/no/seatbelt"));
        let (before, own) = started.arguments.split_at(5);
        assert_eq!(before, ["-p", &confinement.profile, "--", "/bin/sh", "-c"]);
        assert_eq!(own[1..], ["/bin/echo", "4096", "16777216", "-p", "a b"]);
        // The shell script works on every system, so it is really run here.
        let mut shell = std::process::Command::new(SHELL);
        let output = shell.arg("-c").args(own).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "-p a b\n");
    }

    #[test]
    fn paths_that_do_not_exist_yet_are_denied_by_name() {
        let place = Place::new();
        let confinement = place.confine(SandboxProfile::Workspace).unwrap();
        let (base, profile) = (place.base.display(), &confinement.profile);
        for rule in [
            format!("(deny file-write* (subpath \"{base}/project/.vscode\"))"),
            format!("(deny file-write* (subpath \"{base}/project/.git/hooks\"))"),
            format!("(deny file-write* (subpath \"{base}/project/.git/config\"))"),
            format!("(deny file-write-unlink (literal \"{base}/project/.git\"))"),
            format!("(deny file-read* file-write* (subpath \"{base}/gone/key\"))"),
            format!("(allow file-read* file-write* (subpath \"{base}/project\"))"),
        ] {
            assert!(profile.contains(&rule), "{rule}\n{profile}");
        }
        let read_only = place.confine(SandboxProfile::ReadOnly).unwrap().profile;
        assert!(!read_only.contains(&format!("file-write* (subpath \"{base}/project\"))\n(allow")));
        assert!(read_only.contains(&format!("(deny file-write* (subpath \"{base}/project\"))")));
    }

    #[test]
    fn a_new_repository_may_be_created_and_is_checked_afterwards() {
        let place = Place::new();
        fs::remove_dir_all(place.base.join("project/.git")).unwrap();
        let confinement = place.confine(SandboxProfile::Workspace).unwrap();
        let git = place.base.join("project/.git");
        assert!(!confinement.profile.contains(&format!("(subpath \"{}\")", git.display())));
        let guard = place.guard();
        let (run, _sealed) = guard.begin("cmd", CommandKind::Foreground);
        fs::create_dir_all(git.join("hooks")).unwrap();
        fs::write(git.join("hooks/post-checkout"), "evil").unwrap();
        let aside = guard.end(run);
        assert_eq!(aside.iter().map(|aside| &aside.path).collect::<Vec<_>>(), [&git]);
    }

    #[test]
    fn a_protected_link_is_sealed_together_with_its_target() {
        let place = Place::new();
        let base = &place.base;
        fs::create_dir(base.join("project/settings")).unwrap();
        std::os::unix::fs::symlink("settings", base.join("project/.claude")).unwrap();
        let profile = place.confine(SandboxProfile::Workspace).unwrap().profile;
        for name in ["settings", ".claude"] {
            let path = base.join("project").join(name);
            let rule = format!("(deny file-write* (subpath \"{}\"))", path.display());
            assert!(profile.contains(&rule), "{rule}\n{profile}");
        }
    }

    #[test]
    fn nothing_runs_if_a_path_cannot_be_quoted() {
        let mut place = Place::new();
        place.sandbox.config.hidden.push("/new\nline".into());
        let error = place.confine(SandboxProfile::Workspace).unwrap_err();
        assert!(error.to_string().contains("control characters"), "{error}");
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "it is never started")]
    fn a_command_knows_its_temporary_folder_and_leads_its_group() {
        let place = Place::new();
        let mut confinement = place.confine(SandboxProfile::Workspace).unwrap();
        let temp = place.base.join("private/tmp");
        assert_eq!(confinement.variables()["TMPDIR"], temp.as_os_str());
        confinement.apply(&mut Command::new(SHELL));
        assert!(!confinement.has_init() && confinement.failure().is_none());
        let (_reader, writer) = io::pipe().unwrap();
        let (path, env) = (Path::new(SHELL), BTreeMap::new());
        let streams = CommandStreams::merged(writer.into()).unwrap();
        let launch = CommandLaunch { path, argv: &[], env, streams };
        assert!(confinement.start(&launch).is_err() && !confinement.is_keeper_gone());
        assert!(confinement.restart_keeper().is_ok());
        assert!(confinement.wait_for_report().now_or_never().is_none());
        assert_eq!(confinement.end(), None);
    }
}

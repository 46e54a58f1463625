//! What confines one command.

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

/// Where programs look for their temporary folder.
const TEMP_VARIABLES: [&str; 3] = ["TMPDIR", "TMP", "TEMP"];
/// Bounds itself and becomes the command. What the user or the system has set lower stays.
const BOUND: &str = "ulimit -c 0; ulimit -u \"$1\" 2>/dev/null; ulimit -d \"$2\" 2>/dev/null; shift 2; exec \"$0\" \"$@\"";
const KIB: u64 = 1024;

/// What confines one command, from before its start to after its end.
#[derive(Debug)]
pub(in crate::sandbox) struct MacosConfinement {
    seatbelt: PathBuf,
    profile: String,
    limits: ProcessLimits,
    temp: PathBuf,
}

impl MacosConfinement {
    pub(super) fn new(
        ground: &MacosSandbox,
        profile: SandboxProfile,
        shown: &[PathBuf],
        kept: &SealedMounts,
    ) -> io::Result<Self> {
        let config = &ground.config;
        let mut readable = [&ground.roots, &kept.outside, shown].concat();
        let writable = match profile {
            SandboxProfile::Workspace => {
                [&ground.roots[..], &config.writable, &kept.outside].concat()
            }
            SandboxProfile::ReadOnly => Vec::new(),
        };
        let writable: Vec<_> =
            writable.iter().filter_map(|path| path.canonicalize().ok()).collect();
        readable.retain(|path| !writable.contains(path));
        let names = SeatbeltProfile {
            writable,
            readable: readable.iter().map(|path| resolved(path)).collect(),
            hidden: config.hidden.iter().map(|path| resolved(path)).collect(),
            sealed: kept.read_only.iter().chain(&kept.absent).map(|path| named(path)).collect(),
            pinned: kept.pinned.clone(),
            temp: ground.temp(),
            reach: ground.reach(),
        };
        let text =
            names.text().map_err(|error| io::Error::new(io::ErrorKind::InvalidFilename, error))?;
        Ok(Self {
            seatbelt: ground.seatbelt.clone(),
            profile: text,
            limits: config.limits,
            temp: ground.temp(),
        })
    }

    /// Returns what is started in a command's place: what becomes it under the profile.
    pub(in crate::sandbox) fn program(&self, command: Program) -> Program {
        let memory = self.limits.memory / KIB;
        let mut arguments = under(&self.profile);
        arguments.extend(["-c".into(), BOUND.into(), command.path.into()]);
        arguments.push(self.limits.processes.to_string().into());
        arguments.push(memory.to_string().into());
        arguments.extend(command.arguments);
        Program { path: self.seatbelt.clone(), name: self.seatbelt.clone().into(), arguments }
    }

    /// Starts a command where all that it starts ends with it: nothing sees to that here.
    #[expect(clippy::needless_pass_by_ref_mut, clippy::unused_self, reason = "so it is on Linux")]
    pub(in crate::sandbox) fn start(&mut self, _launch: &CommandLaunch<'_>) -> io::Result<Pid> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns whether what starts commands is missing: nothing but the program does here.
    #[expect(clippy::unused_self, reason = "so it is on Linux")]
    pub(in crate::sandbox) fn lacks_starter(&self) -> bool {
        false
    }

    /// There is nothing to be made.
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "so it is on Linux")]
    pub(in crate::sandbox) fn renew(&self) -> io::Result<()> {
        Ok(())
    }

    /// Makes the command the leader of a group, with which it is ended.
    #[expect(clippy::needless_pass_by_ref_mut, clippy::unused_self, reason = "so it is on Linux")]
    pub(in crate::sandbox) fn apply(&mut self, command: &mut Command) {
        command.process_group(0);
    }

    /// Returns what a command must know of its sandbox.
    pub(in crate::sandbox) fn variables(&self) -> BTreeMap<&'static str, OsString> {
        TEMP_VARIABLES.map(|name| (name, self.temp.clone().into_os_string())).into_iter().collect()
    }

    /// Returns whether what leaves the command's group ends with it all the same: nothing sees to that here.
    #[expect(clippy::unused_self, reason = "so it is on Linux")]
    pub(in crate::sandbox) fn has_init(&self) -> bool {
        false
    }

    /// Says why a command could not be started: the program that starts it says it itself.
    #[expect(clippy::needless_pass_by_ref_mut, clippy::unused_self, reason = "so it is on Linux")]
    pub(in crate::sandbox) fn failure(&mut self) -> Option<String> {
        None
    }

    /// Says how the command ended: it is the process that was started, and waited for.
    #[expect(clippy::needless_pass_by_ref_mut, clippy::unused_self, reason = "so it is on Linux")]
    pub(in crate::sandbox) fn end(&mut self) -> Option<SandboxedCommandEnd> {
        None
    }
}

/// Returns the arguments that start a shell under a profile.
pub(super) fn under(profile: &str) -> Vec<OsString> {
    ["-p", profile, "--", SHELL].map(OsString::from).to_vec()
}

/// Follows the links on the way to something that need not be there.
pub(super) fn resolved(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| named(path))
}

/// Follows the links on the way to something, but not itself.
fn named(path: &Path) -> PathBuf {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => resolved(parent).join(name),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::sandbox::{
        CommandKind, SandboxConfig,
        autorun::{AutorunGuard, InventoryScope, KernelSeal},
    };

    struct Place {
        _folder: tempfile::TempDir,
        base: PathBuf,
        ground: MacosSandbox,
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
            let ground =
                MacosSandbox::with("/no/seatbelt".into(), config, &roots, &private).unwrap();
            Self { _folder: folder, base, ground }
        }

        fn confine(&self, profile: SandboxProfile) -> io::Result<MacosConfinement> {
            let (_run, sealed) = self.guard().begin("cmd", CommandKind::Foreground);
            MacosConfinement::new(&self.ground, profile, &[], &sealed)
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
        // The bounds are real on every system: the shell becomes the command.
        let mut shell = std::process::Command::new(SHELL);
        let output = shell.arg("-c").args(own).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "-p a b\n");
    }

    #[test]
    fn what_does_not_exist_yet_is_denied_by_its_name() {
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
    fn a_new_repository_may_be_made_and_is_looked_at_afterwards() {
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
    fn a_protected_link_is_held_by_its_own_name_and_by_where_it_leads() {
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
    fn nothing_runs_if_a_place_cannot_be_named() {
        let mut place = Place::new();
        place.ground.config.hidden.push("/new\nline".into());
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
        let launch = CommandLaunch { path, argv: &[], env, output: writer.into() };
        assert!(confinement.start(&launch).is_err() && !confinement.lacks_starter());
        assert!(confinement.renew().is_ok());
        assert_eq!(confinement.end(), None);
    }
}

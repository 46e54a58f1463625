//! Seatbelt profile of one command. Everything that is not named is denied, and of two matching rules the
//! later one applies.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use super::seatbelt_quote::{UnquotablePath, quote};

/// Rights that programs need and that give no way out of the sandbox: no keychain, no pasteboard, nothing
/// that starts programs.
const BASE: &str = r#"(version 1)
(deny default)

; What a command starts is held like the command itself, and sees and ends nothing else.
(allow process-exec)
(allow process-fork)
(allow process-info* (target same-sandbox))
(allow signal (target same-sandbox))

; What programs ask about the machine. The arguments and variables of other processes are not in it.
(allow sysctl-read
  (sysctl-name-prefix "hw.")
  (sysctl-name-prefix "kern.os")
  (sysctl-name-prefix "machdep.cpu.")
  (sysctl-name "kern.argmax")
  (sysctl-name "kern.hostname")
  (sysctl-name "kern.maxfilesperproc")
  (sysctl-name "kern.maxproc")
  (sysctl-name "kern.ngroups")
  (sysctl-name "kern.secure_kernel")
  (sysctl-name "kern.usrstack64")
  (sysctl-name "kern.version")
  (sysctl-name "sysctl.proc_cputype")
  (sysctl-name "vm.loadavg"))
(allow mach-host*)
(allow mach-lookup
  (global-name "com.apple.bsd.dirhelper")
  (global-name "com.apple.logd")
  (global-name "com.apple.system.logger")
  (global-name "com.apple.system.notification_center")
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.system.opendirectoryd.membership"))
(allow ipc-posix-sem)
(allow user-preference-read)
(allow pseudo-tty)

; Files. Terminals are those that a command opens itself.
(allow file-read*)
(deny file-read* (literal "/dev/tty"))
(allow file-write-data (literal "/dev/null") (literal "/dev/zero"))
(allow file-read* file-write* file-ioctl (literal "/dev/ptmx"))
(allow file-read* file-write* file-ioctl
  (require-all (regex #"^/dev/ttys[0-9]+") (extension "com.apple.sandbox.pty")))
"#;
/// Network of this machine only.
const LOOPBACK: &str = r#"
(allow network-bind (local ip "localhost:*"))
(allow network-inbound (local ip "localhost:*"))
(allow network-outbound (remote ip "localhost:*"))
"#;
/// All hosts, and the services that resolve names and check certificates.
const EVERYTHING: &str = r#"
(allow network-bind (local ip))
(allow network-inbound (local ip))
(allow network-outbound (remote ip))
(allow network-outbound (literal "/private/var/run/mDNSResponder"))
(allow mach-lookup
  (global-name "com.apple.SystemConfiguration.configd")
  (global-name "com.apple.SystemConfiguration.DNSConfiguration")
  (global-name "com.apple.trustd.agent"))
"#;

/// Rights of a command. All paths must be resolved: the kernel compares real paths.
#[derive(Debug, Clone, Default)]
pub(super) struct SeatbeltProfile {
    /// Paths that may be changed.
    pub writable: Vec<PathBuf>,
    /// Paths that may be read even below a hidden folder.
    pub readable: Vec<PathBuf>,
    /// Paths that cannot be read, whether they exist or not.
    pub hidden: Vec<PathBuf>,
    /// Paths that may not change, whether they exist or not.
    pub sealed: Vec<PathBuf>,
    /// Paths whose contents may change, but that may not be renamed or removed.
    pub pinned: Vec<PathBuf>,
    /// Temporary folder of the command, in which it may also listen on sockets.
    pub temp: PathBuf,
    pub network: NetworkAccess,
}

/// Reachable network.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum NetworkAccess {
    /// This machine only; with allowed hosts, the proxy listens here.
    #[default]
    Loopback,
    Everything,
}

/// Access to a path and everything below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProfileRight {
    Read,
    Write,
    Nothing,
}

impl SeatbeltProfile {
    /// Returns the text of the profile.
    pub(super) fn text(&self) -> Result<String, UnquotablePath> {
        let reach = match self.network {
            NetworkAccess::Loopback => LOOPBACK,
            NetworkAccess::Everything => EVERYTHING,
        };
        let temp = quote(&self.temp)?;
        let mut lines = vec![
            format!("{BASE}{reach}(allow network-bind (local unix-socket (subpath {temp})))"),
            format!("(allow network-outbound (remote unix-socket (subpath {temp})))"),
            String::new(),
        ];
        for (path, right) in self.places() {
            let path = quote(&path)?;
            lines.extend(match right {
                ProfileRight::Read => vec![
                    format!("(allow file-read* (subpath {path}))"),
                    // The path may lie within a writable folder.
                    format!("(deny file-write* (subpath {path}))"),
                ],
                ProfileRight::Write => {
                    vec![format!("(allow file-read* file-write* (subpath {path}))")]
                }
                ProfileRight::Nothing => {
                    vec![format!("(deny file-read* file-write* (subpath {path}))")]
                }
            });
        }
        lines.push(String::new());
        for path in &self.sealed {
            lines.push(format!("(deny file-write* (subpath {}))", quote(path)?));
        }
        for path in self.immovable_paths() {
            lines.push(format!("(deny file-write-unlink (literal {}))", quote(&path)?));
        }
        Ok(lines.join("\n"))
    }

    /// Returns paths and rights, sorted: parents come first, so that rules for paths below override them.
    fn places(&self) -> BTreeMap<PathBuf, ProfileRight> {
        let mut places = BTreeMap::new();
        let rights = [
            (std::slice::from_ref(&self.temp), ProfileRight::Write),
            (&self.hidden, ProfileRight::Nothing),
            (&self.writable, ProfileRight::Write),
            (&self.readable, ProfileRight::Read),
        ];
        for (paths, right) in rights {
            for path in paths {
                places.entry(path.clone()).or_insert(right);
            }
        }
        places
    }

    /// Returns the paths that may not be renamed or removed: rules match names, and the contents of a moved
    /// folder would have other names.
    fn immovable_paths(&self) -> BTreeSet<PathBuf> {
        let mut immovable = BTreeSet::new();
        for path in self.sealed.iter().chain(&self.pinned).chain(&self.hidden) {
            let roots = self.writable.iter().filter(|root| path.starts_with(root));
            for root in roots {
                let on_the_way = path.ancestors().take_while(|above| above.starts_with(root));
                immovable.extend(on_the_way.map(Path::to_owned));
            }
        }
        immovable.extend(self.pinned.iter().cloned());
        immovable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile() -> SeatbeltProfile {
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect();
        SeatbeltProfile {
            writable: paths(&["/users/a/project", "/users/a/.cargo"]),
            readable: paths(&["/users/a/data/sessions/1/output"]),
            hidden: paths(&["/users/a/.ssh", "/users/a/data", "/users/a/.cargo/credentials.toml"]),
            sealed: paths(&["/users/a/project/.git/hooks", "/users/a/project/.vscode"]),
            pinned: paths(&["/users/a/project/.git"]),
            temp: "/users/a/data/sandbox/1/tmp".into(),
            network: NetworkAccess::Loopback,
        }
    }

    /// Returns true if a profile allows an operation on a path: the last matching rule decides, as
    /// documented for the kernel.
    fn decides(profile: &SeatbeltProfile, operation: &str, path: &str) -> bool {
        let text = profile.text().unwrap();
        // The rules without a path: reading is allowed by default, everything else is denied.
        let mut is_allowed = operation.starts_with("file-read");
        for rule in text.lines() {
            let fits = match (rule.split_once("(subpath \""), rule.split_once("(literal \"")) {
                (Some((_, rest)), _) => Path::new(path).starts_with(until_quote(rest)),
                (None, Some((_, rest))) => path == until_quote(rest),
                (None, None) => false,
            };
            let covers = rule.split([' ', '(', ')']).any(|word| {
                let all = word.strip_suffix('*');
                word == operation || all.is_some_and(|all| operation.starts_with(all))
            });
            if fits && covers {
                is_allowed = rule.starts_with("(allow");
            }
        }
        is_allowed
    }

    fn until_quote(text: &str) -> &str {
        text.split('"').next().unwrap_or_default()
    }

    #[test]
    fn the_whole_profile_matches_the_snapshot() {
        insta::assert_snapshot!(profile().text().unwrap());
    }

    #[test]
    fn network_access_to_everything_replaces_the_loopback_rules() {
        let profile = SeatbeltProfile { network: NetworkAccess::Everything, ..profile() };
        let text = profile.text().unwrap();
        assert!(text.contains(EVERYTHING) && !text.contains(LOOPBACK));
    }

    #[test]
    fn the_nearest_path_decides() {
        for (operation, path, expected) in [
            ("file-read-data", "/usr/bin/env", true),
            ("file-write-data", "/usr/bin/env", false),
            ("file-write-create", "/users/a/project/src/new.rs", true),
            ("file-write-create", "/users/a/project/.vscode/tasks.json", false),
            ("file-write-create", "/users/a/project/.git/hooks/pre-commit", false),
            ("file-write-create", "/users/a/project/.git/objects/00/1", true),
            ("file-write-unlink", "/users/a/project/.git", false),
            ("file-write-unlink", "/users/a/project", false),
            ("file-write-unlink", "/users/a/project/src", true),
            ("file-read-data", "/users/a/.ssh/id_ed25519", false),
            ("file-read-metadata", "/users/a/data/sessions/2", false),
            ("file-read-data", "/users/a/data/sessions/1/output/log", true),
            ("file-write-data", "/users/a/data/sessions/1/output/log", false),
            ("file-write-create", "/users/a/data/sandbox/1/tmp/x", true),
            ("file-write-create", "/users/a/data/sandbox/1/other", false),
            ("file-write-create", "/users/a/.cargo/registry/x", true),
            ("file-read-data", "/users/a/.cargo/credentials.toml", false),
            ("file-write-create", "/users/a/other", false),
        ] {
            assert_eq!(decides(&profile(), operation, path), expected, "{operation} {path}");
        }
    }

    #[test]
    fn a_read_only_profile_can_write_only_to_its_temporary_folder() {
        let profile = SeatbeltProfile {
            writable: Vec::new(),
            readable: vec!["/users/a/project".into()],
            ..profile()
        };
        for (path, expected) in [
            ("/users/a/project/src/x", false),
            ("/users/a/.cargo/x", false),
            ("/users/a/data/sandbox/1/tmp/x", true),
        ] {
            assert_eq!(decides(&profile, "file-write-create", path), expected, "{path}");
        }
    }

    #[test]
    fn a_path_that_cannot_be_quoted_is_an_error() {
        type Place = fn(&mut SeatbeltProfile) -> &mut Vec<PathBuf>;
        let places: [Place; 5] = [
            |profile| &mut profile.writable,
            |profile| &mut profile.readable,
            |profile| &mut profile.hidden,
            |profile| &mut profile.sealed,
            |profile| &mut profile.pinned,
        ];
        for place in places {
            let mut profile = profile();
            place(&mut profile).push("/new\nline".into());
            assert_eq!(profile.text(), Err(UnquotablePath::Control("/new\nline".into())));
        }
    }

    #[test]
    fn no_service_that_gives_a_way_out_is_allowed() {
        for reach in [NetworkAccess::Loopback, NetworkAccess::Everything] {
            let text = SeatbeltProfile { network: reach, ..profile() }.text().unwrap();
            for service in [
                "securityd",
                "SecurityServer",
                "pasteboard",
                "launchservicesd",
                "lsd",
                "coreservices",
                "tccd",
                "windowserver",
            ] {
                assert!(!text.contains(&format!(".{service}")), "{service}");
            }
            assert!(!text.contains("(allow default)") && !text.contains("(allow mach-lookup)"));
        }
    }
}

//! Checks of the program itself, the machine, the terminal and the tools that agents need. They start nothing and reach
//! nothing.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use crow_app::{ProcessEnvironment, config::Configuration, otel_settings, trust::Project};
use crow_core::permission::PermissionMode;
use rustix::process::{Resource, getrlimit};

use super::report::DoctorFinding;
use crate::{error::CliError, terminal::console_style};

/// Free space below which a folder is nearly full, and below which nothing can be recorded, in bytes.
const FREE_WARNING: u64 = 1 << 30;
const FREE_BAD: u64 = 32 << 20;
/// Fewest open files that a process should be allowed: a session has some dozens.
const OPEN_FILES: u64 = 256;
/// Fewest columns of a terminal.
const COLUMNS: usize = 40;
/// Maximum number of files that are counted below a folder.
const MOST_COUNTED: usize = 5_000;

/// Reports the version, where the program is, and whether the shell would find it.
pub(super) fn program(environment: &ProcessEnvironment) -> Vec<DoctorFinding> {
    let build = if cfg!(debug_assertions) { ", a slow build for development" } else { "" };
    let version = env!("CARGO_PKG_VERSION");
    let mut findings = vec![DoctorFinding::fine(format!(
        "program: crow-agent {version} for {} on {}{build}",
        std::env::consts::OS,
        std::env::consts::ARCH
    ))];
    let Ok(own) = std::env::current_exe() else { return findings };
    findings.push(match find_program("crow-agent", environment) {
        Some(found) if found.canonicalize().ok() == own.canonicalize().ok() => {
            DoctorFinding::fine(format!("program: {}, found by PATH", found.display()))
        }
        Some(other) => DoctorFinding::warning(
            format!("program: {} runs, but PATH finds {} first", own.display(), other.display()),
            "remove the other one, or change the order in PATH",
        ),
        None => DoctorFinding::warning(
            format!("program: {} is not in PATH", own.display()),
            "add its folder to PATH, or link it into one that is there",
        ),
    });
    findings
}

/// Reports memory, processors, limits, free space and places for temporary files.
pub(super) fn machine(environment: &ProcessEnvironment) -> Result<Vec<DoctorFinding>, CliError> {
    let mut findings = Vec::new();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = |key: &str| -> Option<u64> {
        let line = memory.lines().find(|line| line.starts_with(key))?;
        line.split_whitespace().nth(1)?.parse().ok()
    };
    findings.push(match (kib("MemTotal:"), kib("MemAvailable:")) {
        (Some(total), Some(free)) if free < 200 << 10 => DoctorFinding::warning(
            format!("memory: {} MB of {} MB are free", free >> 10, total >> 10),
            "commands of the agent need memory, too: end other programs",
        ),
        (Some(total), Some(free)) => DoctorFinding::fine(format!(
            "memory: {} MB of {} MB are free; {cores} processors",
            free >> 10,
            total >> 10
        )),
        _ => DoctorFinding::fine(format!("{cores} processors")),
    });
    if let Ok(kernel) = fs::read_to_string("/proc/sys/kernel/osrelease") {
        findings.push(DoctorFinding::fine(format!("kernel: {}", kernel.trim())));
    }
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    findings.push(if files < OPEN_FILES {
        DoctorFinding::warning(
            format!("limit of open files: {files}"),
            format!("ulimit -n {OPEN_FILES} before the program starts"),
        )
    } else {
        DoctorFinding::fine(format!("limit of open files: {files}"))
    });
    for (name, folder) in
        [("data", environment.data_dir()?), ("settings", environment.config_dir()?)]
    {
        findings.extend(free_space(name, &folder));
    }
    let temporary = environment.var("TMPDIR").unwrap_or_else(|| "/tmp".to_owned());
    findings.push(match tempfile::tempfile_in(&temporary) {
        Ok(_) => DoctorFinding::fine(format!("temporary files: {temporary}")),
        Err(error) => DoctorFinding::bad(
            format!("temporary files: nothing can be written in {temporary}: {error}"),
            "set TMPDIR to a folder that you may write",
        ),
    });
    Ok(findings)
}

/// Reports the free space of the file system of a folder, or of the nearest folder above that exists.
fn free_space(name: &str, folder: &Path) -> Option<DoctorFinding> {
    let existing = folder.ancestors().find(|above| above.exists())?;
    let space = rustix::fs::statvfs(existing).ok()?;
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    let text = format!("{name}: {} MB are free at {}", free >> 20, existing.display());
    let hint = "`crow-agent sessions list` and `sessions rm` remove what is not needed";
    let is_read_only = rustix::fs::access(existing, rustix::fs::Access::WRITE_OK).is_err();
    Some(match free {
        _ if is_read_only => DoctorFinding::bad(
            format!("{name}: {} cannot be written", existing.display()),
            "make it writable, or set XDG_DATA_HOME and XDG_CONFIG_HOME",
        ),
        0..FREE_BAD => DoctorFinding::bad(text, hint),
        FREE_BAD..FREE_WARNING => DoctorFinding::warning(text, hint),
        FREE_WARNING.. => DoctorFinding::fine(text),
    })
}

/// Reports what the terminal can show.
pub(super) fn terminal(environment: &ProcessEnvironment) -> Vec<DoctorFinding> {
    let style = console_style(environment);
    let term = environment.var("TERM");
    let mut findings = vec![match term.as_deref() {
        None | Some("dumb") => DoctorFinding::warning(
            "terminal: TERM is unset or `dumb`: no colours, no editing of lines",
            "set TERM, for instance to xterm-256color",
        ),
        Some(term) => DoctorFinding::fine(format!("terminal: {term}")),
    }];
    findings.push(if style.glyphs == crow_console::Glyphs::Unicode {
        DoctorFinding::fine("locale: UTF-8")
    } else {
        DoctorFinding::warning(
            "locale: not UTF-8: signs are shown as ASCII",
            "set LC_ALL or LANG, for instance to C.UTF-8",
        )
    });
    findings.push(if style.width < COLUMNS {
        DoctorFinding::warning(
            format!("width: {} columns", style.width),
            format!("at least {COLUMNS} are pleasant"),
        )
    } else {
        DoctorFinding::fine(format!("width: {} columns", style.width))
    });
    let colour = if style.colour { "in colour" } else { "without colours" };
    findings.push(DoctorFinding::fine(format!("output: {colour}")));
    findings
}

/// Reports programs that agents and sandboxes use, and where they are.
pub(super) fn programs(environment: &ProcessEnvironment) -> Vec<DoctorFinding> {
    let found = |name: &str, missing: &str, hint: &str| match find_program(name, environment) {
        Some(path) => DoctorFinding::fine(format!("{name}: {}", path.display())),
        None => DoctorFinding::warning(format!("{name}: {missing}"), hint),
    };
    vec![
        found("sh", "missing: the agent can run no command", "install a POSIX shell"),
        found("bash", "missing: commands run in sh", "install bash"),
        found(
            "git",
            "missing: the agent learns no branch and no changes of the project",
            "install git; undo does not need it",
        ),
    ]
}

/// Finds an executable file by PATH.
fn find_program(name: &str, environment: &ProcessEnvironment) -> Option<PathBuf> {
    let path = environment.var("PATH")?;
    let folders = std::env::split_paths(&path);
    folders.map(|folder| folder.join(name)).find(|file| {
        fs::metadata(file)
            .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    })
}

/// Reports how requests leave the machine: proxies, certificates, telemetry.
pub(super) fn network(environment: &ProcessEnvironment, project: &Project) -> Vec<DoctorFinding> {
    let set = |names: &[&str]| -> Option<String> {
        let found = names.iter().find(|name| environment.is_set(name));
        found.map(|name| (*name).to_owned())
    };
    let mut findings = Vec::new();
    let proxy = set(&["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"]);
    findings.push(DoctorFinding::fine(match proxy {
        Some(name) => format!("proxy: {name} is used"),
        None => "proxy: none".to_owned(),
    }));
    if let Some(file) = environment.var("SSL_CERT_FILE") {
        findings.push(if Path::new(&file).is_file() {
            DoctorFinding::fine(format!("certificates: {file}, by SSL_CERT_FILE"))
        } else {
            DoctorFinding::bad(
                format!("certificates: SSL_CERT_FILE names {file}, which is no file"),
                "unset it, or name a file with certificates",
            )
        });
    } else {
        findings.push(DoctorFinding::fine("certificates: those of the system"));
    }
    // A configuration that cannot be read is reported in its own section.
    let Ok(configuration) = Configuration::load(environment, &project.additions) else {
        return findings;
    };
    findings.push(match otel_settings(&configuration, environment) {
        Ok(Some(settings)) => {
            let endpoint = settings.traces.or(settings.metrics).or(settings.logs);
            let server = endpoint.map(|endpoint| endpoint.server_name()).unwrap_or_default();
            DoctorFinding::fine(format!("telemetry: sent to {server}"))
        }
        Ok(None) => DoctorFinding::fine("telemetry: not sent to a collector"),
        Err(error) => {
            let advice = "correct the variable or `[telemetry] endpoint`, or unset it";
            DoctorFinding::bad(format!("telemetry: {error}"), advice)
        }
    });
    findings
}

/// Reports how much Crow keeps, and sessions whose headers cannot be read.
pub(super) fn stores(environment: &ProcessEnvironment) -> Result<Vec<DoctorFinding>, CliError> {
    let data = environment.data_dir()?;
    let mut findings = Vec::new();
    for name in ["sessions", "snapshots", "telemetry"] {
        let (files, bytes) = count_below(&data.join(name));
        let more = if files >= MOST_COUNTED { "more than " } else { "" };
        findings
            .push(DoctorFinding::fine(format!("{name}: {more}{files} files, {} MB", bytes >> 20)));
    }
    let store = crow_app::product::session_store(environment)?;
    let listed = store.list(&crow_runtime::SessionFilter::default())?;
    let damaged = listed.iter().filter(|session| session.crow().rebuilt).count();
    findings.push(if damaged == 0 {
        DoctorFinding::fine(format!("sessions: all {} can be read", listed.len()))
    } else {
        DoctorFinding::warning(
            format!("sessions: {damaged} of {} are damaged", listed.len()),
            "`crow-agent sessions list` marks them; `crow-agent sessions repair ID` rebuilds one",
        )
    });
    Ok(findings)
}

/// Counts the files below a folder and their bytes, up to a bound.
fn count_below(folder: &Path) -> (usize, u64) {
    let (mut files, mut bytes) = (0, 0);
    let mut pending = vec![folder.to_owned()];
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                pending.push(entry.path());
            } else {
                files += 1;
                bytes += metadata.blocks() * 512;
            }
            if files >= MOST_COUNTED {
                return (files, bytes);
            }
        }
    }
    (files, bytes)
}

/// Reports the rules that decide about calls.
pub(super) fn permissions(environment: &ProcessEnvironment) -> Vec<DoctorFinding> {
    let mut findings = Vec::new();
    match crow_app::product::rule_store(environment).map(|store| store.load()) {
        Ok(Ok(rules)) => {
            findings.push(DoctorFinding::fine(format!(
                "permissions: {} rules of your own; without a rule, `{}` applies",
                rules.user.rules().len(),
                PermissionMode::default()
            )));
            let managed = rules.managed.rules().len();
            findings.push(DoctorFinding::fine(match managed {
                0 => "permissions: no rules of an administrator".to_owned(),
                _ => format!("permissions: {managed} rules of an administrator, above yours"),
            }));
        }
        Ok(Err(error)) => findings.push(DoctorFinding::bad(
            format!("permissions: {error}"),
            "`crow-agent permissions list` shows the rules that can be read",
        )),
        Err(error) => findings.push(error.into()),
    }
    findings
}

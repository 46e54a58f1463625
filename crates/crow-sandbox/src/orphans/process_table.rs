//! Process information that only Linux offers. Elsewhere the lists are empty, and nothing is adopted.

#[cfg(target_os = "linux")]
mod platform {
    use std::{
        fs, io,
        io::Read as _,
        path::{Path, PathBuf},
    };

    use rustix::process::{Pid, getpid, set_child_subreaper};

    /// Maximum number of bytes read of a process's environment.
    const ENVIRONMENT: u64 = 1024 * 1024;

    /// Makes this process a subreaper: the parent of orphaned descendants.
    pub(crate) fn adopt_orphans() -> io::Result<()> {
        fs::File::open(children_file())?;
        Ok(set_child_subreaper(Some(getpid()))?)
    }

    /// Returns the children of the first thread: the kernel gives orphans to it, and children of other
    /// threads are not listed.
    pub(crate) fn children() -> Vec<Pid> {
        pids_in(&children_file())
    }

    /// Returns the children of all threads.
    pub(crate) fn all_children() -> Vec<Pid> {
        let Ok(threads) = fs::read_dir("/proc/self/task") else { return Vec::new() };
        threads.flatten().flat_map(|thread| pids_in(&thread.path().join("children"))).collect()
    }

    fn pids_in(file: &Path) -> Vec<Pid> {
        let text = fs::read_to_string(file).unwrap_or_default();
        text.split_ascii_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
    }

    /// Returns the value of a variable in a process's initial environment.
    pub(crate) fn variable(pid: Pid, name: &str) -> Option<String> {
        let mut bytes = Vec::new();
        let file = fs::File::open(format!("/proc/{}/environ", pid.as_raw_nonzero())).ok()?;
        file.take(ENVIRONMENT).read_to_end(&mut bytes).ok()?;
        let variables = bytes.split(|byte| *byte == 0);
        let value = |variable: &[u8]| {
            variable.strip_prefix(name.as_bytes())?.strip_prefix(b"=").map(<[u8]>::to_vec)
        };
        variables.into_iter().find_map(value).and_then(|value| String::from_utf8(value).ok())
    }

    fn children_file() -> PathBuf {
        let pid = getpid().as_raw_nonzero();
        format!("/proc/{pid}/task/{pid}/children").into()
    }
}

#[cfg(not(target_os = "linux"))]
mod platform {
    use std::io;

    use rustix::process::Pid;

    pub(crate) fn adopt_orphans() -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn children() -> Vec<Pid> {
        Vec::new()
    }

    pub(crate) fn all_children() -> Vec<Pid> {
        Vec::new()
    }

    pub(crate) fn variable(_pid: Pid, _name: &str) -> Option<String> {
        None
    }
}

pub(super) use platform::{adopt_orphans, all_children, children, variable};

//! What confines one command.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
};

use crow_core::capability::{ProcessEnd, PutAside};
use tokio::process::Command;

use super::{
    child::{self, Confines, Entry},
    files::Files,
    ground::{Ground, Level},
    namespaces::Namespaces,
    places::{Places, Wanted, text},
    report::Told,
};
use crate::sandbox::{
    ConfinedEnd, SandboxProfile, nested::NestedRepositories, protected::Protected,
};

/// Where commands find their temporary folder.
const TEMP: &str = "/tmp";
/// What commands put below their home, and need.
const TEMP_VARIABLES: [&str; 3] = ["TMPDIR", "TMP", "TEMP"];

/// What confines one command, from before its start to after its end.
#[derive(Debug)]
pub(in crate::sandbox) struct Confinement {
    confines: Option<Confines>,
    told: Option<OwnedFd>,
    protected: Protected,
    held: PathBuf,
    roots: Vec<PathBuf>,
    nested: Arc<NestedRepositories>,
    temp: PathBuf,
    /// Whether something watches the command and is ended in its place.
    has_init: bool,
}

impl Confinement {
    pub(super) fn new(
        ground: &Ground,
        cwd: &Path,
        profile: SandboxProfile,
        shown: &[PathBuf],
    ) -> io::Result<Option<Self>> {
        let (namespaces, filter) = match &ground.level {
            Level::Full { namespaces, filter } => (Some(namespaces), filter),
            Level::Restricted { filter, .. } => (None, filter),
            Level::Open { .. } => return Ok(None),
        };
        let protected = Protected::find(&ground.roots, &ground.config.unprotected, &ground.nested);
        let private = &ground.private;
        let mut writable = vec![private.temp(), private.shared_memory()];
        if profile == SandboxProfile::Workspace {
            writable.extend(ground.roots.iter().cloned());
            writable.extend(ground.config.writable.iter().cloned());
            writable.extend(protected.outside.iter().cloned());
        }
        // Where nothing can be laid over it, what is hidden gets no rule.
        let unreadable = if namespaces.is_some() { &[][..] } else { &ground.config.hidden };
        let files = Files::open(unreadable, &writable);
        let no_landlock = || io::Error::from(io::ErrorKind::Unsupported);
        let ruleset = files.ruleset().ok_or_else(no_landlock)?;
        let entry = match namespaces {
            None => None,
            Some(namespaces) => {
                // A rule for a folder holds for what is laid over something in it, too: what may not be changed is laid
                // there so that it cannot be.
                let readable = [&ground.roots, &protected.outside, shown].concat();
                let wanted = Wanted {
                    private,
                    writable: &writable,
                    readable: &readable,
                    hidden: &ground.config.hidden,
                    protected: &protected,
                };
                Some(entry(ground, namespaces, Places::new(&wanted)?, cwd)?)
            }
        };
        let has_init = entry.is_some();
        let (told, report) = io::pipe()?;
        let temp = if has_init { TEMP.into() } else { private.temp() };
        let confines = Confines {
            namespaces: entry,
            ruleset,
            filter: Arc::clone(filter),
            limits: ground.config.limits,
            report: report.into(),
        };
        Ok(Some(Self {
            confines: Some(confines),
            told: Some(told.into()),
            protected,
            held: private.held(),
            roots: ground.roots.clone(),
            nested: Arc::clone(&ground.nested),
            temp,
            has_init,
        }))
    }

    /// Sets everything up once, for nothing, to see whether the kernel allows it.
    #[expect(clippy::disallowed_methods, reason = "it tries out what commands run in")]
    pub(super) fn try_out(ground: &Ground) -> Result<(), String> {
        let confinement = Self::new(ground, Path::new("/"), SandboxProfile::ReadOnly, &[])
            .map_err(|error| error.to_string())?;
        let Some(mut confinement) = confinement else { return Ok(()) };
        // It never becomes this program.
        let mut command = std::process::Command::new("/");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).env_clear();
        let mut confines = confinement.confines.take();
        child::set_up(&mut command, move || confines.as_mut().map_or(Ok(()), Confines::enter));
        let tried = command.spawn().and_then(|mut child| child.wait());
        drop(command);
        match (tried, confinement.told.take().and_then(Told::receive)) {
            (Ok(_), Some(Told::Ended { .. })) => Ok(()),
            (_, Some(Told::Failed(stage, error))) => {
                Err(format!("{} failed: {error}", stage.as_str()))
            }
            (Err(error), _) => Err(error.to_string()),
            (Ok(_), None) => Err("it ended before it was set up".to_owned()),
        }
    }

    /// Confines a command that is about to start.
    pub(in crate::sandbox) fn apply(&mut self, command: &mut Command) {
        if let Some(confines) = self.confines.take() {
            child::confine(command, confines);
        }
    }

    /// Returns what a command must know of its sandbox.
    pub(in crate::sandbox) fn variables(&self) -> BTreeMap<&'static str, OsString> {
        TEMP_VARIABLES.map(|name| (name, self.temp.clone().into_os_string())).into_iter().collect()
    }

    /// Returns whether what leaves the command's group ends with it all the same.
    pub(in crate::sandbox) fn has_init(&self) -> bool {
        self.has_init
    }

    /// Says why a command could not be started, if that was the sandbox.
    pub(in crate::sandbox) fn failure(&mut self) -> Option<String> {
        match Told::receive(self.told.take()?)? {
            Told::Failed(stage, error) => Some(format!("{} failed: {error}", stage.as_str())),
            Told::Ended { .. } => None,
        }
    }

    /// Says how the command ended. All that it started must have ended before, where there is an init.
    pub(in crate::sandbox) fn end(&mut self) -> Option<ConfinedEnd> {
        use std::os::unix::process::ExitStatusExt as _;
        if !self.has_init {
            return None;
        }
        let Told::Ended { status, was_left } = Told::receive(self.told.take()?)? else {
            return None;
        };
        let status = std::process::ExitStatus::from_raw(status);
        let end = match (status.code(), status.signal()) {
            (Some(code), _) => ProcessEnd::Exited(code),
            (None, signal) => ProcessEnd::Signaled(signal.unwrap_or(0)),
        };
        Some(ConfinedEnd { end, was_left })
    }

    /// Moves aside what the command should not have made.
    pub(in crate::sandbox) fn put_aside(&self) -> Vec<PutAside> {
        self.protected.put_aside(&self.held, &self.roots, &self.nested)
    }
}

fn entry(
    ground: &Ground,
    namespaces: &Arc<Namespaces>,
    places: Places,
    cwd: &Path,
) -> io::Result<Entry> {
    let mut rules = vec![Files::reading(c"/proc".to_owned())];
    rules.extend(places.terminals().map(Files::terminals));
    Ok(Entry {
        namespaces: Arc::clone(namespaces),
        lifeline: ground.lifeline.try_clone()?.into(),
        steps: places.steps,
        held: (0..places.held).map(|_| None).collect(),
        cwd: text(cwd)?,
        rules,
    })
}

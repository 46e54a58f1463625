//! The hooks of a user and of a trusted project.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use crow_agent::layers::{LayerKind, Layers};

use crate::{
    config::{Configuration, HooksTable},
    environment::ProcessEnvironment,
    hook_files::{
        CLAUDE_USER_FILE, Hook, HookEvent, HookFile, PROJECT_FILES, UnusedHook, user_hook_files,
    },
    trust::{StartedServer, project_root, started_files},
};

/// Maximum size of a file with hooks, in bytes.
const LARGEST: u64 = 1024 * 1024;
/// Whose hook it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookOrigin {
    /// In a file of the user.
    User,
    /// In a trusted project.
    Project,
}

impl HookOrigin {
    /// Returns the name for people and programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
        }
    }
}

/// A hook with its origin.
#[derive(Debug, Clone)]
pub struct SessionHook {
    pub hook: Hook,
    pub origin: HookOrigin,
    /// The file that configures it.
    pub file: PathBuf,
    /// True if it may run outside of the sandbox.
    pub may_run_outside: bool,
}

/// The hooks of a directory.
#[derive(Debug, Clone, Default)]
pub struct HookSet {
    /// Those that run, in the order in which their answers count.
    pub hooks: Vec<SessionHook>,
    /// Those that do not run, with their file.
    pub unused: Vec<(PathBuf, UnusedHook)>,
    /// Messages about files that cannot be used.
    pub faults: Vec<String>,
}

impl HookSet {
    /// Collects the hooks of a configuration for sessions in a directory. Blocks.
    pub fn of_configuration(
        configuration: &Configuration,
        environment: &ProcessEnvironment,
        cwd: &Path,
    ) -> Self {
        let table = &configuration.settings.hooks;
        Self::read(configuration.agents.layers(), environment, table, cwd)
    }

    fn read(
        layers: &Layers,
        environment: &ProcessEnvironment,
        table: &HooksTable,
        cwd: &Path,
    ) -> Self {
        let mut set = Self::default();
        // 1) The user's files.
        let mut is_disabled = false;
        for path in user_hook_files(environment) {
            if !table.uses_claude_settings() && path.ends_with(CLAUDE_USER_FILE) {
                continue;
            }
            let bytes = match read_file(&path) {
                Ok(Some(bytes)) => bytes,
                Ok(None) => continue,
                Err(error) => {
                    set.faults.push(format!("cannot read {}: {error}", path.display()));
                    continue;
                }
            };
            match HookFile::parse(&path, &bytes) {
                Ok(file) => {
                    is_disabled |= file.disables_all;
                    set.add(file, HookOrigin::User, &path);
                }
                Err(fault) => set.faults.push(fault),
            }
        }
        // 2) Those of a trusted project, from memory.
        for layer in layers.iter().filter(|layer| layer.kind() == LayerKind::Project) {
            let root = layer.root().parent().unwrap_or(layer.root()).to_path_buf();
            for (name, path) in PROJECT_FILES {
                let path = root.join(path);
                match layer.read(name) {
                    Ok(Some(text)) => match HookFile::parse(&path, text.as_bytes()) {
                        Ok(file) if file.disables_all => {
                            set.leave_out_all(file, &path, "the file has `disableAllHooks`");
                        }
                        Ok(file) => set.add(file, HookOrigin::Project, &path),
                        Err(fault) => set.faults.push(fault),
                    },
                    Ok(None) => {}
                    Err(error) => set.faults.push(error.to_string()),
                }
            }
        }
        // 3) Switches of the user.
        let switch = if !table.is_enabled() {
            Some("`[hooks] enabled = false` in config.toml switches all hooks off")
        } else if is_disabled {
            Some("`disableAllHooks` in the user's settings switches all hooks off")
        } else {
            None
        };
        if let Some(reason) = switch {
            for hook in std::mem::take(&mut set.hooks) {
                let place = format!("hooks.{}", hook.hook.event);
                let reason = reason.to_owned();
                set.unused.push((hook.file, UnusedHook { place, reason }));
            }
        }
        // 4) What may run outside of the sandbox: hooks of the user that start nothing of the project.
        let root = project_root(cwd);
        for hook in &mut set.hooks {
            let is_own = hook.origin == HookOrigin::User;
            let is_outside =
                is_own && (table.runs_outside() || hook.hook.event == HookEvent::Notification);
            hook.may_run_outside = is_outside && {
                let program = started_program(&hook.hook, cwd).with_search_path(environment);
                started_files(&root, &[program]).is_empty()
            };
        }
        set
    }

    fn add(&mut self, file: HookFile, origin: HookOrigin, path: &Path) {
        for hook in file.hooks {
            let file = path.to_path_buf();
            // The same command at the same event runs once.
            let is_known = self.hooks.iter().any(|known| {
                known.hook.event == hook.event
                    && known.hook.command() == hook.command()
                    && known.hook.matcher() == hook.matcher()
                    && known.origin == origin
            });
            if !is_known {
                self.hooks.push(SessionHook { hook, origin, file, may_run_outside: false });
            }
        }
        self.unused.extend(file.unused.into_iter().map(|unused| (path.to_path_buf(), unused)));
    }

    fn leave_out_all(&mut self, file: HookFile, path: &Path, reason: &str) {
        for hook in file.hooks {
            let place = format!("hooks.{}", hook.event);
            let unused = UnusedHook { place, reason: reason.to_owned() };
            self.unused.push((path.to_path_buf(), unused));
        }
    }

    /// Returns the folders with scripts of the user's hooks, which their sandbox lets them read.
    pub(crate) fn readable_folders(&self, environment: &ProcessEnvironment) -> Vec<PathBuf> {
        let Some(home) = environment.var("HOME").map(PathBuf::from) else { return Vec::new() };
        let mut folders: Vec<PathBuf> = Vec::new();
        for hook in self.hooks.iter().filter(|hook| hook.origin == HookOrigin::User) {
            for script in scripts_below(&hook.hook, &home) {
                let folder = script.parent().unwrap_or(&home).to_path_buf();
                // The settings beside it are not the scripts'.
                let is_scripts = folder != home && folder != home.join(".claude");
                let readable = if is_scripts { folder } else { script };
                if !folders.contains(&readable) {
                    folders.push(readable);
                }
            }
        }
        folders
    }

    /// Returns the programs of the hooks that run outside of the sandbox, as sessions in `cwd` start them.
    pub(crate) fn outside_programs(
        &self,
        cwd: &Path,
        environment: &ProcessEnvironment,
    ) -> Vec<StartedServer> {
        let outside = self.hooks.iter().filter(|hook| hook.may_run_outside);
        outside.map(|hook| started_program(&hook.hook, cwd).with_search_path(environment)).collect()
    }
}

/// Returns the program that a hook starts in a directory.
fn started_program(hook: &Hook, cwd: &Path) -> StartedServer {
    StartedServer::new(hook.argv(), BTreeMap::new(), cwd.to_path_buf())
}

/// Returns the existing files below the home that the command of a hook names.
fn scripts_below(hook: &Hook, home: &Path) -> Vec<PathBuf> {
    let text = hook.command();
    let is_end = |char: char| char.is_whitespace() || "'\"`;|&()<>=".contains(char);
    let expanded = text.split(is_end).filter_map(|word| {
        let below = ["~/", "$HOME/", "${HOME}/"].iter().find_map(|mark| word.strip_prefix(mark));
        let path = below.map_or_else(|| PathBuf::from(word), |below| home.join(below));
        path.starts_with(home).then_some(path)
    });
    expanded.filter(|path| path.is_file()).collect()
}

/// Reads a file of the user. Links are followed: users link their configuration from elsewhere.
fn read_file(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match path.canonicalize() {
        Ok(path) => crow_fs::read_bounded(&path, LARGEST).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

//! The hooks of a user and of a trusted project.

use std::{
    io,
    path::{Path, PathBuf},
};

use crow_agent::layers::{LayerKind, Layers};
use crow_core::workspace::path_from_above;

use crate::{
    config::{Configuration, HooksTable},
    environment::ProcessEnvironment,
    hook_files::{
        CLAUDE_USER_FILE, Hook, HookCommand, HookEvent, HookFile, PROJECT_FILES, UnusedHook,
        user_hook_files,
    },
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
    /// True if it may run outside of the sandbox, unless it names something of the project.
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
    /// Collects the hooks of a configuration. Blocks.
    pub fn of_configuration(
        configuration: &Configuration,
        environment: &ProcessEnvironment,
    ) -> Self {
        let table = &configuration.settings.hooks;
        Self::read(configuration.agents.layers(), environment, table)
    }

    fn read(layers: &Layers, environment: &ProcessEnvironment, table: &HooksTable) -> Self {
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
        // 4) What may run outside of the sandbox, if it names nothing of the project.
        for hook in &mut set.hooks {
            let is_own = hook.origin == HookOrigin::User;
            let is_notification = hook.hook.event == HookEvent::Notification;
            hook.may_run_outside = is_own && (table.runs_outside() || is_notification);
        }
        set
    }

    fn add(&mut self, file: HookFile, origin: HookOrigin, path: &Path) {
        for hook in file.hooks {
            let file = path.to_path_buf();
            // The same hook runs once.
            let is_known =
                self.hooks.iter().any(|known| known.origin == origin && known.hook.is_same(&hook));
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

    /// Returns the scripts that the user's hooks start in hidden folders, and the folders of scripts that they are in: the
    /// sandbox lets hooks read them.
    pub(crate) fn readable_paths(&self, environment: &ProcessEnvironment) -> Vec<PathBuf> {
        let Some(home) = environment.var("HOME").map(PathBuf::from) else { return Vec::new() };
        let mut paths: Vec<PathBuf> = Vec::new();
        for hook in self.hooks.iter().filter(|hook| hook.origin == HookOrigin::User) {
            let script = script_of(&hook.hook, Some(&home), &home, &home);
            let script = script.filter(|script| script.is_file() && script.starts_with(&home));
            let Some(script) = script else { continue };
            // Beside settings and keys only the script itself; a folder of scripts is named so.
            let folder = script.parent().filter(|folder| {
                folder.file_name().is_some_and(|name| SCRIPT_FOLDERS.iter().any(|one| name == *one))
            });
            let path = folder.unwrap_or(&script).to_path_buf();
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        paths
    }
}

/// Names of folders that have scripts and nothing else.
const SCRIPT_FOLDERS: [&str; 4] = ["hooks", "scripts", "bin", "tools"];
/// Beginnings of words for the home and for the project.
const HOME_MARKS: [&str; 3] = ["~/", "$HOME/", "${HOME}/"];
const PROJECT_MARKS: [&str; 2] = ["$CLAUDE_PROJECT_DIR", "${CLAUDE_PROJECT_DIR}"];
/// Programs whose first argument is a script.
const INTERPRETERS: [&str; 14] = [
    "bash", "bun", "deno", "fish", "node", "perl", "php", "python", "python3", "ruby", "sh",
    "source", "uv", "zsh",
];

/// Returns the words of a command, without quotes, roughly as a shell would.
fn words_of(hook: &Hook) -> Vec<String> {
    match &hook.command {
        HookCommand::Program(words) => words.clone(),
        HookCommand::Line(line) => {
            let is_end = |char: char| char.is_whitespace() || ";|&()<>=`".contains(char);
            let words = line.split(is_end).map(|word| word.replace(['"', '\''], ""));
            words.filter(|word| !word.is_empty()).collect()
        }
    }
}

/// Returns the script that a hook starts, if its first command names one by its path: the program, or what an interpreter
/// runs.
pub(super) fn script_of(
    hook: &Hook,
    home: Option<&Path>,
    project: &Path,
    cwd: &Path,
) -> Option<PathBuf> {
    let words = words_of(hook);
    let mut words = words.iter().map(String::as_str);
    let program = words.next()?;
    let name = program.rsplit('/').next().unwrap_or(program);
    let script = if INTERPRETERS.contains(&name) {
        // An option could take the next word as its value.
        words.next().filter(|word| !word.starts_with('-'))?
    } else {
        program
    };
    let below_home = || HOME_MARKS.iter().find_map(|mark| script.strip_prefix(mark));
    let below_project = || PROJECT_MARKS.iter().find_map(|mark| script.strip_prefix(mark));
    if let Some(below) = below_home() {
        return Some(home?.join(below));
    }
    if let Some(below) = below_project() {
        return Some(project.join(below.trim_start_matches('/')));
    }
    // Other variables and patterns are known only to the shell.
    let is_path = script.contains('/') && !script.contains(['$', '*', '?', '[', '{', '~', '\\']);
    is_path.then(|| cwd.join(script))
}

/// Returns true if the command of a hook names a path in one of these directories, or one that only the shell knows.
pub(super) fn names_path_below<'a>(
    hook: &Hook,
    home: Option<&Path>,
    roots: impl Iterator<Item = &'a PathBuf>,
) -> bool {
    let roots: Vec<PathBuf> = roots
        .flat_map(|root| [root.clone(), root.canonicalize().unwrap_or_else(|_| root.clone())])
        .collect();
    // Relative words are paths of the home.
    if home.is_none_or(|home| roots.iter().any(|root| home.starts_with(root))) {
        return true;
    }
    let home = home.unwrap_or(Path::new("/"));
    words_of(hook).iter().any(|word| {
        let below = HOME_MARKS.iter().find_map(|mark| word.strip_prefix(mark));
        if below.is_none() && word.contains('$') {
            return true;
        }
        // A pattern may stand for the name of any folder.
        if word.contains('/') && word.contains(['*', '?', '[', '{']) {
            return true;
        }
        let path = home.join(below.unwrap_or(word));
        let resolved = path.canonicalize().unwrap_or_else(|_| path.clone());
        roots.iter().any(|root| {
            path.starts_with(root)
                || resolved.starts_with(root)
                || path_from_above(root, word).is_some()
        })
    })
}

/// Reads a file of the user. Links are followed: users link their configuration from elsewhere.
fn read_file(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match path.canonicalize() {
        Ok(path) => crow_fs::read_bounded(&path, LARGEST).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

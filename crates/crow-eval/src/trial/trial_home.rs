//! The home of a trial: its own `HOME` and XDG folders, with a copy of the configuration.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use toml::{Table, Value};

use super::TrialHost;

/// Folders of the XDG specification, by the variable that names them.
const FOLDERS: [(&str, &str); 5] = [
    ("HOME", "home"),
    ("XDG_CONFIG_HOME", "config"),
    ("XDG_DATA_HOME", "data"),
    ("XDG_STATE_HOME", "state"),
    ("XDG_CACHE_HOME", "cache"),
];
/// Folders of toolchains below the user's home, by the variable that names them: with another home they would be missing.
const TOOLCHAINS: [(&str, &str); 9] = [
    ("CARGO_HOME", ".cargo"),
    ("RUSTUP_HOME", ".rustup"),
    ("PYENV_ROOT", ".pyenv"),
    ("RBENV_ROOT", ".rbenv"),
    ("NVM_DIR", ".nvm"),
    ("VOLTA_HOME", ".volta"),
    ("GOPATH", "go"),
    ("SDKMAN_DIR", ".sdkman"),
    ("ASDF_DATA_DIR", ".asdf"),
];
/// Folder of the configuration below the XDG folder.
const CONFIG: &str = "crow-agent";
const SETTINGS: &str = "config.toml";

/// The home of one trial.
#[derive(Debug)]
pub(super) struct TrialHome {
    variables: BTreeMap<String, String>,
}

impl TrialHome {
    /// Makes the folders below `folder`, and copies the configuration. Programs of the trial cannot read `hidden` and what
    /// is hidden from commands of the user. Blocks.
    ///
    /// # Errors
    /// Any error of the file system, and of a `config.toml` that is none.
    pub(super) fn create(host: &TrialHost, folder: &Path, hidden: &[PathBuf]) -> io::Result<Self> {
        let mut variables = host.variables.clone();
        for (variable, name) in FOLDERS {
            let path = folder.join(name);
            fs::create_dir(&path)?;
            variables.insert(variable.to_owned(), text(&path)?.to_owned());
        }
        let toolchains = host.home.iter().flat_map(|home| {
            TOOLCHAINS.map(|(variable, name)| (variable.to_owned(), home.join(name)))
        });
        for (variable, path) in toolchains {
            if path.is_dir() && !variables.contains_key(&variable) {
                variables.insert(variable, text(&path)?.to_owned());
            }
        }
        let config = folder.join("config").join(CONFIG);
        fs::create_dir(&config)?;
        host.config.write(&config)?;
        let settings = config.join(SETTINGS);
        let given = match fs::read_to_string(&settings) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        let of_user = &host.sandbox.config;
        let all = of_user.hidden.iter().chain(&of_user.own).chain(hidden);
        let existing: Vec<_> = all.filter(|path| path.exists()).cloned().collect();
        fs::write(&settings, with_hidden(&given, host.home.as_deref(), &existing)?)?;
        Ok(Self { variables })
    }

    /// Returns all variables of the program.
    pub(super) fn variables(&self) -> &BTreeMap<String, String> {
        &self.variables
    }
}

/// Adds hidden paths to settings. Paths of the sandbox that begin with `~` keep their meaning, although the home changes.
fn with_hidden(settings: &str, home: Option<&Path>, hidden: &[PathBuf]) -> io::Result<String> {
    let bad = |error: String| io::Error::new(io::ErrorKind::InvalidData, error);
    let mut table: Table = settings.parse().map_err(|error| bad(format!("{SETTINGS}: {error}")))?;
    let sandbox = table.entry("sandbox").or_insert_with(|| Value::Table(Table::new()));
    let sandbox = sandbox.as_table_mut().ok_or_else(|| bad("sandbox is no table".to_owned()))?;
    for key in ["hidden", "readable", "writable"] {
        let paths = sandbox.entry(key).or_insert_with(|| Value::Array(Vec::new()));
        let paths = paths.as_array_mut().ok_or_else(|| bad(format!("sandbox.{key} is no list")))?;
        for path in paths.iter_mut() {
            let below = path.as_str().and_then(|path| path.strip_prefix("~/"));
            if let (Some(below), Some(home)) = (below, home) {
                *path = Value::String(text(&home.join(below))?.to_owned());
            }
        }
        if key == "hidden" {
            for path in hidden {
                paths.push(Value::String(text(path)?.to_owned()));
            }
        }
    }
    Ok(table.to_string())
}

fn text(path: &Path) -> io::Result<&str> {
    let error = || {
        let text = format!("{} is not UTF-8", path.display());
        io::Error::new(io::ErrorKind::InvalidData, text)
    };
    path.to_str().ok_or_else(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_paths_are_added_to_the_settings() {
        let settings =
            "model = \"a/b\"\n[sandbox]\nhidden = [\"~/x\"]\nreadable = [\"~/r\", \"/s\"]\n";
        let added = [PathBuf::from("/k")];
        let text = with_hidden(settings, Some(Path::new("/h")), &added).unwrap();
        let expected = "model = \"a/b\"\n[sandbox]\nhidden = [\"/h/x\", \"/k\"]\nreadable = [\"/h/r\", \"/s\"]\nwritable = []\n";
        assert_eq!(text.parse::<Table>().unwrap(), expected.parse::<Table>().unwrap());
        let empty = with_hidden("", None, &[]).unwrap();
        assert!(empty.contains("[sandbox]"), "{empty}");
        for wrong in ["sandbox = 1\n", "[sandbox]\nhidden = 1\n", "x = = 1\n"] {
            assert!(with_hidden(wrong, None, &[]).is_err(), "{wrong}");
        }
    }
}

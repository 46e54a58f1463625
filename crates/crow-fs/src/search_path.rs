//! The search path of programs, `PATH`, without the folders in which a project decides what a name means.

use std::path::{Path, PathBuf};

/// Search path of programs if a process has none.
const DEFAULT: &str = "/usr/local/bin:/usr/bin:/bin";
/// Folders of the system: their programs are not those of a project, even if a root of it contains the whole system.
const SYSTEM_FOLDERS: [&str; 9] =
    ["/Library", "/System", "/bin", "/gnu", "/nix", "/run", "/sbin", "/snap", "/usr"];

/// Folders in which programs are looked for by their names, in this order. The file system is looked at only as far as
/// a question needs it: to resolve each folder at once would be most of the system calls of a short command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchPath {
    folders: Vec<PathBuf>,
    /// Folders of the project.
    roots: Vec<PathBuf>,
}

impl SearchPath {
    /// Parses the value of `PATH`. `roots` are the folders of the project.
    pub fn new(value: Option<&str>, roots: &[PathBuf]) -> Self {
        let mut folders: Vec<PathBuf> = Vec::new();
        for folder in std::env::split_paths(value.unwrap_or(DEFAULT)) {
            if !folders.contains(&folder) {
                folders.push(folder);
            }
        }
        Self { folders, roots: roots.to_vec() }
    }

    /// Returns true if the project decides what some names mean.
    pub fn has_folder_of_project(&self) -> bool {
        self.folders.iter().any(|folder| self.is_of_project(folder))
    }

    /// Returns the program that a name means outside the project.
    pub fn find_outside(&self, name: &str) -> Option<PathBuf> {
        let mut folders = self.folders.iter();
        let folder =
            folders.find(|folder| is_program(&folder.join(name)) && !self.is_of_project(folder))?;
        Some(folder.join(name))
    }

    /// Returns true if a process that starts in one of these folders would find a program by a name.
    pub fn finds(&self, name: &str, folders: &[PathBuf]) -> bool {
        self.folders.iter().any(|folder| {
            folder.is_absolute() && is_program(&folder.join(name))
                || folder.is_relative()
                    && folders.iter().any(|cwd| is_program(&cwd.join(folder).join(name)))
        })
    }

    /// Returns true if a process that starts in one of these folders would find a program of the project by a name.
    pub fn finds_in_project(&self, name: &str, folders: &[PathBuf]) -> bool {
        let mut candidates = self.folders.iter();
        let found = candidates
            .find(|folder| folders.iter().any(|cwd| is_program(&cwd.join(folder).join(name))));
        found.is_some_and(|folder| self.is_of_project(folder))
    }

    /// Returns the value of `PATH` without the folders of the project.
    pub fn value_outside(&self) -> String {
        let folders = self.folders.iter().filter(|folder| !self.is_of_project(folder));
        let folders: Vec<_> = folders.map(|folder| folder.to_string_lossy()).collect();
        // To shells, an empty value is the working folder.
        if folders.is_empty() { DEFAULT.to_owned() } else { folders.join(":") }
    }

    /// Returns true if a folder is relative or in a root: the project decides which programs are there.
    fn is_of_project(&self, folder: &Path) -> bool {
        folder.is_relative() || is_inside(folder, &self.roots)
    }
}

/// Returns true if a folder is below a root, as written or with its links resolved.
fn is_inside(path: &Path, roots: &[PathBuf]) -> bool {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    roots.iter().any(|root| {
        let mut systems =
            SYSTEM_FOLDERS.iter().filter(|system| Path::new(system).starts_with(root));
        (path.starts_with(root) || real.starts_with(root))
            && !systems.any(|system| real.starts_with(system))
    })
}

/// Returns true for a file that may be executed.
fn is_program(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok() && path.is_file()
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt as _, symlink},
    };

    use super::*;

    fn program(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn programs_of_the_project_are_told_from_those_of_the_system() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        let root = top.join("p");
        for name in ["p/bin/ls", "p/sub/tools/cat", "usr/ls", "usr/cat", "usr/id"] {
            program(&top.join(name));
        }
        fs::write(root.join("bin/id"), "").unwrap();
        symlink(root.join("bin"), top.join("link")).unwrap();
        let (roots, usr) = ([root.clone()], top.join("usr"));
        let here = [root.clone()];
        let (system, own) = (usr.display().to_string(), root.join("bin").display().to_string());
        let link = top.join("link").display().to_string();
        for (value, name, is_found) in [
            (format!("{own}:{system}"), "ls", true),
            (format!("{link}:{system}"), "ls", true),
            (format!("./bin:{system}"), "ls", true),
            (format!("bin:{system}"), "ls", true),
            (format!("{system}:{own}"), "ls", false),
            (format!("{own}:{system}"), "cat", false),
            (format!("{own}:{system}"), "id", false),
            (format!("{own}:{system}"), "none", false),
        ] {
            let path = SearchPath::new(Some(&value), &roots);
            assert_eq!(path.finds_in_project(name, &here), is_found, "{value}: {name}");
            assert!(path.has_folder_of_project(), "{value}");
            assert_eq!(path.value_outside(), system, "{value}");
            let outside = (name != "none").then(|| usr.join(name));
            assert_eq!(path.find_outside(name), outside, "{value}: {name}");
        }
        // A project around the whole system.
        for (root, is_of_project) in [("/", false), ("/usr", false), ("/usr/bin", true)] {
            let path = SearchPath::new(Some("/usr/bin"), &[PathBuf::from(root)]);
            assert_eq!(path.has_folder_of_project(), is_of_project, "{root}");
        }
        // An empty element is the working folder.
        let path = SearchPath::new(Some(&format!(":{system}")), &roots);
        assert!(path.finds_in_project("cat", &[root.join("sub/tools")]));
        assert!(path.finds("cat", &[root.join("sub/tools")]) && path.finds("cat", &here));
        assert!(
            !path.finds("none", &here) && !SearchPath::new(Some("bin"), &roots).finds("ls", &[])
        );
        assert!(SearchPath::new(Some("bin"), &roots).finds("ls", &here));
        assert!(!path.finds_in_project("cat", &here));
        assert!(!SearchPath::new(Some(&system), &roots).has_folder_of_project());
        assert!(!SearchPath::new(None, &roots).has_folder_of_project());
    }
}

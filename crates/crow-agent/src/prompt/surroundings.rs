//! What an agent is told of the place it works in, once, at the start of a session.

use std::{
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
};

/// The most bytes of project instructions that are shown.
const INSTRUCTIONS: usize = 32 * 1024;
/// The names under which a folder's instructions are looked for; the first one found counts.
const NAMES: [&str; 3] = ["AGENTS.override.md", "AGENTS.md", "CLAUDE.md"];

/// Facts about the place and the project's instructions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// The working directory.
    pub cwd: PathBuf,
    /// Operating system and processor.
    pub platform: String,
    /// The day, without a time.
    pub date: String,
    /// The root of the repository and what is checked out, if there is one.
    pub repository: Option<(PathBuf, String)>,
    /// Instructions of the project: the file and its text, the outermost first.
    pub instructions: Vec<(PathBuf, String)>,
    /// What was left out of the instructions.
    pub omitted: Vec<PathBuf>,
}

impl Surroundings {
    /// Looks at the place: reads `.git/HEAD` and the AGENTS.md files from the repository's root down to `cwd`. Starts
    /// no program. Blocks.
    pub fn gather(cwd: &Path, date: impl Into<String>) -> Self {
        let root = cwd.ancestors().find(|folder| folder.join(".git").exists());
        let mut surroundings = Self {
            cwd: cwd.to_path_buf(),
            platform: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            date: date.into(),
            repository: root.map(|root| (root.to_path_buf(), checked_out(root))),
            ..Self::default()
        };
        surroundings.read_instructions(root.unwrap_or(cwd));
        surroundings
    }

    /// The nearest file has the first claim on the space that there is.
    fn read_instructions(&mut self, root: &Path) {
        let mut space = INSTRUCTIONS;
        for folder in self.cwd.clone().ancestors().take_while(|folder| folder.starts_with(root)) {
            let Some((path, text)) =
                NAMES.iter().find_map(|name| read_text(&folder.join(name), root))
            else {
                continue;
            };
            if text.len() <= space {
                space -= text.len();
                self.instructions.insert(0, (path, text));
            } else {
                let part = text.get(..text.floor_char_boundary(space)).unwrap_or_default();
                if !part.is_empty() {
                    self.instructions.insert(0, (path.clone(), part.to_owned()));
                }
                space = 0;
                self.omitted.push(path);
            }
        }
    }

    /// Writes them as the text that opens a session.
    pub fn to_text(&self) -> String {
        let mut text = String::from("<environment>\n");
        let mut line = |name: &str, value: &dyn std::fmt::Display| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name}: {value}");
        };
        line("working directory", &self.cwd.display());
        if let Some((root, head)) = &self.repository {
            line("git repository", &format_args!("{} ({head})", root.display()));
        } else {
            line("git repository", &"none");
        }
        line("platform", &self.platform);
        line("date", &self.date);
        text.push_str("</environment>\n");
        for (path, content) in &self.instructions {
            let _ = write!(
                text,
                "\n<project_instructions file=\"{}\">\n{}\n</project_instructions>\n",
                path.display(),
                content.trim()
            );
        }
        for path in &self.omitted {
            let _ = writeln!(
                text,
                "\n{} is longer than what fits here; read the rest of it yourself if you need it.",
                path.display()
            );
        }
        text
    }
}

/// Reads a regular file as text; anything else is as good as absent, and so is a file outside of `root`: a link could
/// show the model what is private.
fn read_text(path: &Path, root: &Path) -> Option<(PathBuf, String)> {
    let real = path.canonicalize().ok()?;
    if !real.starts_with(root.canonicalize().ok()?) {
        return None;
    }
    Some((path.to_path_buf(), read_file(&real)?))
}

/// Reads the start of a regular file that is no link.
fn read_file(path: &Path) -> Option<String> {
    let readable = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file());
    let bytes = readable.then(|| read_start(path).ok()).flatten()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn read_start(path: &Path) -> io::Result<Vec<u8>> {
    use io::Read as _;
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(4 * INSTRUCTIONS as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What `.git/HEAD` points to; a worktree's `.git` is a file that names the folder.
fn checked_out(root: &Path) -> String {
    let git = root.join(".git");
    let link = read_file(&git).unwrap_or_default();
    let folder = link.trim().strip_prefix("gitdir: ").map_or(git, |path| root.join(path));
    let head = read_file(&folder.join("HEAD")).unwrap_or_default();
    match head.trim().strip_prefix("ref: refs/heads/") {
        Some(branch) => format!("branch {branch}"),
        None if head.trim().is_empty() => "nothing checked out".to_owned(),
        // Anything else was not written by git.
        None if !head.trim().bytes().all(|byte| byte.is_ascii_hexdigit()) => "unknown".to_owned(),
        None => format!("commit {}", head.trim().chars().take(12).collect::<String>()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_instructions_come_last_and_have_the_first_claim_on_space() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("project");
        let inner = root.join("inner");
        fs::create_dir_all(root.join(".git")).unwrap();
        fs::create_dir_all(&inner).unwrap();
        fs::write(root.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(folder.path().join("AGENTS.md"), "outside").unwrap();
        fs::write(root.join("AGENTS.md"), "x".repeat(INSTRUCTIONS)).unwrap();
        fs::write(inner.join("CLAUDE.md"), "near").unwrap();
        let surroundings = Surroundings::gather(&inner, "2026-01-02");
        let shown: Vec<_> = surroundings.instructions.iter().map(|(_, text)| text.len()).collect();
        assert_eq!(shown, [INSTRUCTIONS - 4, 4]);
        assert_eq!(surroundings.omitted, [root.join("AGENTS.md")]);
        let text = surroundings.to_text();
        assert!(
            text.contains("(branch main)") && text.contains("near") && !text.contains("outside"),
            "{text}"
        );
    }

    #[test]
    fn nothing_outside_of_the_project_is_shown_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("project");
        fs::create_dir_all(root.join(".git")).unwrap();
        fs::write(folder.path().join("secret"), "secret").unwrap();
        let link =
            |name: &str| std::os::unix::fs::symlink(folder.path().join("secret"), root.join(name));
        link("AGENTS.md").unwrap();
        link(".git/HEAD").unwrap();
        fs::write(root.join("shared.md"), "ours").unwrap();
        std::os::unix::fs::symlink("shared.md", root.join("CLAUDE.md")).unwrap();
        let text = Surroundings::gather(&root, "2026-01-02").to_text();
        assert!(!text.contains("secret") && text.contains("ours"), "{text}");
        fs::remove_file(root.join(".git/HEAD")).unwrap();
        fs::write(root.join(".git/HEAD"), "secret").unwrap();
        assert!(!Surroundings::gather(&root, "2026-01-02").to_text().contains("secret"));
    }

    #[test]
    fn a_folder_without_a_repository_has_its_own_instructions_only() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("a")).unwrap();
        fs::write(folder.path().join("AGENTS.md"), "above").unwrap();
        let surroundings = Surroundings::gather(&folder.path().join("a"), "2026-01-02");
        assert_eq!(surroundings.instructions, []);
        assert!(surroundings.to_text().contains("git repository: none"));
    }
}

//! The prompts of earlier sessions, in a file of JSON texts, one a line.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

/// Name of the file in the data directory.
const FILE_NAME: &str = "prompts.jsonl";
/// Maximum number of prompts that are read.
const MOST_PROMPTS: usize = 1000;
/// Maximum length of a prompt that is kept, in bytes: pastes make long ones.
const LONGEST_PROMPT: usize = 16 * 1024;
/// Length of the file, in bytes, at which it is cut down to its newest prompts.
const LARGEST_FILE: u64 = 4 * 1024 * 1024;

/// The file with the prompts of earlier sessions.
#[derive(Debug)]
pub(super) struct PromptHistoryFile(Option<PathBuf>);

impl PromptHistoryFile {
    /// Names the file in a data directory; without one, nothing is kept.
    pub(super) fn new(data_dir: Option<&Path>) -> Self {
        Self(data_dir.map(|folder| folder.join(FILE_NAME)))
    }

    /// Returns the prompts, the newest last. A file that cannot be read counts as empty, and lines that are damaged are
    /// left out: the history is a convenience.
    pub(super) fn read(&self) -> Vec<String> {
        let text = self.0.as_ref().and_then(|file| fs::read(file).ok()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let prompts = text.lines().filter_map(|line| serde_json::from_str::<String>(line).ok());
        let mut prompts: Vec<String> = prompts.collect();
        prompts.drain(..prompts.len().saturating_sub(MOST_PROMPTS));
        prompts
    }

    /// Adds a prompt, unless it begins with a blank, as in a shell, or is very long.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub(super) fn add(&self, prompt: &str) -> io::Result<()> {
        let Some(file) = &self.0 else { return Ok(()) };
        if prompt.starts_with(' ') || prompt.len() > LONGEST_PROMPT {
            return Ok(());
        }
        if fs::metadata(file).is_ok_and(|metadata| metadata.len() > LARGEST_FILE) {
            self.shorten(file)?;
        }
        let mut open = fs::OpenOptions::new();
        let mut file = open.create(true).append(true).mode(0o600).open(file)?;
        let line = serde_json::to_string(prompt)? + "\n";
        file.write_all(line.as_bytes())
    }

    /// Replaces the file by one with the newest prompts.
    fn shorten(&self, file: &Path) -> io::Result<()> {
        let lines: Result<Vec<String>, _> = self.read().iter().map(serde_json::to_string).collect();
        let folder = file.parent().unwrap_or(file);
        let mut new = tempfile::Builder::new().prefix(FILE_NAME).tempfile_in(folder)?;
        new.write_all((lines?.join("\n") + "\n").as_bytes())?;
        new.persist(file)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn prompts_are_kept_in_a_private_file_but_those_with_a_leading_blank() {
        let folder = tempfile::tempdir().unwrap();
        let history = PromptHistoryFile::new(Some(folder.path()));
        assert!(history.read().is_empty());
        for prompt in ["one\nwith two lines", " secret", "two", &"x".repeat(LONGEST_PROMPT + 1)] {
            history.add(prompt).unwrap();
        }
        assert_eq!(history.read(), ["one\nwith two lines", "two"]);
        let mode = fs::metadata(folder.path().join(FILE_NAME)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn damaged_lines_cost_only_themselves() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(FILE_NAME);
        fs::write(&file, b"\"one\"\n\"hal\nnull\n\xff\n\"two\"\n").unwrap();
        assert_eq!(PromptHistoryFile::new(Some(folder.path())).read(), ["one", "two"]);
    }

    #[test]
    fn a_large_file_is_cut_down_to_its_newest_prompts() {
        let folder = tempfile::tempdir().unwrap();
        let history = PromptHistoryFile::new(Some(folder.path()));
        let file = folder.path().join(FILE_NAME);
        let line = format!("\"{}\"\n", "x".repeat(4096));
        fs::write(&file, line.repeat(1100)).unwrap();
        history.add("new").unwrap();
        let prompts = history.read();
        assert_eq!((prompts.len(), prompts.last().map(String::as_str)), (1000, Some("new")));
        assert!(fs::metadata(&file).unwrap().len() < LARGEST_FILE + 8192);
    }
}

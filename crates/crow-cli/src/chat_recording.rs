//! The file of `--record`: a new one that only its owner can read.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use crow_app::ProcessEnvironment;
use crow_console::ConsoleStyle;
use crow_terminal::{AsciicastError, ChatRecording};
use crow_text::one_line;

use crate::{
    error::CliError,
    terminal::{console_style, print_message},
};

/// Path of a recording that is not begun yet.
pub(crate) struct RecordingPath(PathBuf);

impl RecordingPath {
    /// Checks that a recording can be written in a file, so that nothing is asked before an error.
    ///
    /// # Errors
    /// Fails if the file exists, or the terminal shows plain lines, which are not recorded.
    pub(crate) fn check(given: &Path, environment: &ProcessEnvironment) -> Result<Self, CliError> {
        check_style(&console_style(environment))?;
        let path = environment.current_dir()?.join(given);
        if path.symlink_metadata().is_ok() {
            return Err(unusable(&path, &io::ErrorKind::AlreadyExists.into()));
        }
        if !path.parent().is_some_and(Path::is_dir) {
            return Err(unusable(&path, &io::ErrorKind::NotFound.into()));
        }
        Ok(Self(path))
    }

    /// Creates the file and begins the recording of a chat of this style.
    pub(crate) fn begin(
        self,
        style: &ConsoleStyle,
        environment: &ProcessEnvironment,
    ) -> Result<FileRecording, CliError> {
        check_style(style)?;
        let Self(path) = self;
        let file = create(&path).map_err(|error| unusable(&path, &error))?;
        let (term, shell) = (environment.var("TERM"), environment.var("SHELL"));
        let recording = ChatRecording::new(file, term, shell);
        let recording = recording.map_err(|error| CliError::failed(with_cause(&error)))?;
        Ok(FileRecording { path, recording })
    }
}

/// A recording and its file.
pub(crate) struct FileRecording {
    path: PathBuf,
    pub(crate) recording: ChatRecording,
}

impl FileRecording {
    /// Ends the recording, and says where it is or what is wrong with it.
    pub(crate) fn finish(&self) {
        match self.recording.finish() {
            Ok(()) => {
                print_message(&format!(
                    "recorded in {}",
                    one_line(&self.path.display().to_string())
                ));
            }
            Err(error) => print_message(&with_cause(&error)),
        }
    }
}

fn check_style(style: &ConsoleStyle) -> Result<(), CliError> {
    if style.live {
        return Ok(());
    }
    let message = "--record: this terminal shows plain lines, which are not recorded";
    Err(CliError::usage(message)
        .hint("set TERM, for instance to xterm-256color, if it can do more"))
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

fn unusable(path: &Path, error: &io::Error) -> CliError {
    let reason = match error.kind() {
        io::ErrorKind::AlreadyExists => "it exists already".to_owned(),
        io::ErrorKind::NotFound => "its folder does not exist".to_owned(),
        _ => error.to_string(),
    };
    CliError::usage(format!("--record: {} cannot be written: {reason}", path.display()))
        .hint("name another file")
}

fn with_cause(error: &AsciicastError) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

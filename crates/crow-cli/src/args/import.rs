//! Arguments of `crow-agent import`.

use clap::{Args, ValueEnum};
use crow_app::import::{ImportSource, SessionChoice};

use super::OutputForm;

/// What to import, and whether to do it.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The program to import from
    #[arg(long, value_enum)]
    pub(crate) from: ImportProgram,
    /// Write what is shown without it; nothing of the other program is changed
    #[arg(long)]
    pub(crate) apply: bool,
    /// Replace what Crow has under the same name
    #[arg(long)]
    pub(crate) replace: bool,
    /// Which sessions: those of the project that you are in, of all folders, or none
    #[arg(long, value_enum, default_value_t = ImportedSessions::Project)]
    pub(crate) sessions: ImportedSessions,
    /// Output format: text, or one JSON object per line
    #[arg(long, short, value_enum, default_value_t = OutputForm::Text)]
    pub(crate) output: OutputForm,
}

/// The sessions to import.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ImportedSessions {
    Project,
    All,
    None,
}

impl From<ImportedSessions> for SessionChoice {
    fn from(sessions: ImportedSessions) -> Self {
        match sessions {
            ImportedSessions::Project => Self::Project,
            ImportedSessions::All => Self::All,
            ImportedSessions::None => Self::None,
        }
    }
}

/// A program to import from.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ImportProgram {
    Claude,
    Codex,
    Opencode,
    Pi,
    Gemini,
}

impl From<ImportProgram> for ImportSource {
    fn from(program: ImportProgram) -> Self {
        match program {
            ImportProgram::Claude => Self::Claude,
            ImportProgram::Codex => Self::Codex,
            ImportProgram::Opencode => Self::OpenCode,
            ImportProgram::Pi => Self::Pi,
            ImportProgram::Gemini => Self::Gemini,
        }
    }
}

//! The programs to import from.

use super::{
    claude, codex, gemini, opencode, pi,
    plan::{ImportPlan, SessionChoice},
};
use crate::{environment::ProcessEnvironment, error::AppError};

/// A program to import from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportSource {
    Claude,
    Codex,
    OpenCode,
    Pi,
    Gemini,
}

impl ImportSource {
    /// All programs.
    pub const ALL: [Self; 5] = [Self::Claude, Self::Codex, Self::OpenCode, Self::Pi, Self::Gemini];

    /// Returns the name of the program in commands and ids.
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::OpenCode => "opencode",
            Self::Pi => "pi",
            Self::Gemini => "gemini",
        }
    }

    /// Returns the name of the program for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::Claude => "Claude Code",
            Self::Codex => "Codex",
            Self::OpenCode => "opencode",
            Self::Pi => "pi",
            Self::Gemini => "Gemini CLI",
        }
    }
}

/// Reads what there is of a program. Blocks.
///
/// # Errors
/// Fails if there is no home, or if Crow's own configuration cannot be read. Files of the other program that cannot be used are
/// among what is left out.
pub fn plan_import(
    source: ImportSource,
    environment: &ProcessEnvironment,
    sessions: SessionChoice,
) -> Result<ImportPlan, AppError> {
    let mut plan = ImportPlan::new(environment, sessions)?;
    match source {
        ImportSource::Claude => claude::read(&mut plan),
        ImportSource::Codex => codex::read(&mut plan),
        ImportSource::OpenCode => opencode::read(&mut plan),
        ImportSource::Pi => pi::read(&mut plan),
        ImportSource::Gemini => gemini::read(&mut plan),
    }
    plan.compare()?;
    Ok(plan)
}

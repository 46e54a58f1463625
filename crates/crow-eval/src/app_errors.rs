//! Errors as a front end reports them.

use crow_app::AppError;

use crate::{
    compare::CompareError, new_task::NewTaskError, run_folder::RunFolderError, runner::EvalError,
    task::TaskError, trial::TrialHostError,
};

impl From<TaskError> for AppError {
    fn from(error: TaskError) -> Self {
        Self { code: "tasks", ..Self::usage(error.to_string()) }
    }
}

impl From<CompareError> for AppError {
    fn from(error: CompareError) -> Self {
        Self { code: "runs", ..Self::usage(error.to_string()) }
    }
}

impl From<NewTaskError> for AppError {
    fn from(error: NewTaskError) -> Self {
        let message = error.to_string();
        match error {
            NewTaskError::Journal(error) => error.into(),
            NewTaskError::NoPrompt | NewTaskError::NoCheck | NewTaskError::Exists { .. } => {
                Self::usage(message)
            }
            NewTaskError::File { .. } => Self { code: "storage", ..Self::failed(message) },
        }
    }
}

impl From<TrialHostError> for AppError {
    fn from(error: TrialHostError) -> Self {
        match error {
            TrialHostError::Configuration(error) => error,
            error @ TrialHostError::Read { .. } => Self::usage(error.to_string()),
        }
    }
}

impl From<RunFolderError> for AppError {
    fn from(error: RunFolderError) -> Self {
        let message = error.to_string();
        match error {
            RunFolderError::File { .. } => Self { code: "storage", ..Self::failed(message) },
            RunFolderError::Content { .. } => Self { code: "runs", ..Self::usage(message) },
            RunFolderError::OtherFiles { .. } | RunFolderError::OtherRun { .. } => {
                Self { code: "runs", ..Self::usage(message) }
                    .hint("choose another folder with --out")
            }
            RunFolderError::InUse { .. } => Self { code: "run_locked", ..Self::usage(message) }
                .hint("wait for that process, or choose another folder with --out"),
        }
    }
}

impl From<EvalError> for AppError {
    fn from(error: EvalError) -> Self {
        let message = error.to_string();
        match error {
            EvalError::Folder(error) => error.into(),
            EvalError::UnknownCost { .. } => Self::usage(message).hint("leave out --max-cost"),
            EvalError::Temporary { .. } => {
                Self::failed(message).hint("set TMPDIR to a folder with enough space")
            }
            EvalError::Trial { .. } => Self::failed(message),
        }
    }
}

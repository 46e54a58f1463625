//! `bash`: a command in a shell, and its output in a form that a model can read; and the jobs that it leaves running.

mod bash;
mod jobs;
mod output;
mod working_folder;

pub(crate) use bash::Bash;
pub(crate) use jobs::{BashKill, BashOutput};

//! The arguments of `eval`.

use std::{num::NonZeroUsize, path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueHint};
use crow_agent::definition::Seconds;
use crow_eval::TaskSelection;
use serde::{
    Deserialize as _,
    de::value::{Error as ValueError, StrDeserializer},
};

use super::{OutputForm, cli::temperature, completions};

/// Arguments of `eval`: those of a measurement, or a further command.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct EvalArgs {
    #[command(subcommand)]
    pub command: Option<EvalCommand>,
    #[command(flatten)]
    pub run: EvalRunArgs,
}

/// What else to do with tasks and measurements.
#[derive(Debug, Subcommand)]
pub(crate) enum EvalCommand {
    /// List the tasks at some paths, and where each was read
    List(EvalListArgs),
    /// Make a task from a session: its first prompt, the files before it, and a check
    New {
        /// The session's id or an id prefix
        #[arg(add = completions::session_ids())]
        session: String,
        /// Folder of the new task
        #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
        folder: PathBuf,
        /// Shell line that succeeds if and only if the work is right
        #[arg(long, value_name = "LINE")]
        check: String,
    },
    /// Compare two runs on the tasks that both have, with a significance test
    Compare {
        /// Folder of a run
        #[arg(value_name = "RUN_A", value_hint = ValueHint::DirPath)]
        first: PathBuf,
        /// Folder of another run
        #[arg(value_name = "RUN_B", value_hint = ValueHint::DirPath)]
        second: PathBuf,
        /// Output format: text, or one JSON object
        #[arg(long, short, value_enum, default_value_t = OutputForm::Text)]
        output: OutputForm,
    },
}

/// Which tasks are meant.
#[derive(Debug, Args)]
pub(crate) struct TaskArgs {
    /// Folders of a task, folders of such folders, files with JSON lines, or the package harness-bench
    #[arg(required = true, value_name = "TASKS", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
    /// Only these: numbers, ranges such as 100-199 and names, separated by commas; a name may end with *
    #[arg(long = "tasks", value_name = "LIST")]
    pub selection: Option<TaskSelection>,
    /// Only the first N of them
    #[arg(long, value_name = "N")]
    pub limit: Option<NonZeroUsize>,
}

/// Arguments of `eval list`.
#[derive(Debug, Args)]
pub(crate) struct EvalListArgs {
    #[command(flatten)]
    pub tasks: TaskArgs,
    /// Output format: a table, or one JSON object per line
    #[arg(long, short, value_enum, default_value_t = OutputForm::Text)]
    pub output: OutputForm,
}

/// Arguments of a measurement.
#[derive(Debug, Args)]
pub(crate) struct EvalRunArgs {
    #[command(flatten)]
    pub tasks: TaskArgs,
    /// An agent to measure; may be given several times [default: that of the configuration]
    #[arg(long, short, value_name = "NAME", add = completions::primary_agents())]
    pub agent: Vec<String>,
    /// A model to measure each agent with; may be given several times [default: that of the configuration]
    #[arg(long, short, value_name = "PROVIDER/MODEL", add = completions::models())]
    pub model: Vec<String>,
    /// Seed of the sampling, for providers that take one, and the number of a repetition; may be given several times
    /// [default: 1]
    #[arg(long, value_name = "N")]
    pub seed: Vec<u64>,
    /// Sampling temperature of all models, from 0 to 2
    #[arg(long, value_name = "T", value_parser = temperature)]
    pub temperature: Option<f32>,
    /// How many trials run at the same time
    #[arg(long, short, value_name = "N", default_value = "1")]
    pub jobs: NonZeroUsize,
    /// Folder for the results; the same command continues a run that was cut short
    #[arg(long, value_name = "DIR", default_value = "crow-eval", value_hint = ValueHint::DirPath)]
    pub out: PathBuf,
    /// End each trial after this time, if its task gives it more: 90s, 30m, 2h
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub trial_time: Option<Duration>,
    /// Begin no further trial after this time: 90s, 30m, 2h
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub max_time: Option<Duration>,
    /// Begin no further trial once all trials together have cost this much, in US dollars
    #[arg(long, value_name = "USD", value_parser = money)]
    pub max_cost: Option<f64>,
    /// Measure another program: a shell line that runs in the working folder of the task, with the prompt in place of
    /// {prompt} or as its last word
    #[arg(long, value_name = "LINE", conflicts_with_all = ["agent", "model", "config", "temperature"])]
    pub program: Option<String>,
    /// Folder of the configuration that each trial gets a copy of [default: your own]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub config: Option<PathBuf>,
    /// Output format: a table, or one JSON object per trial and a summary
    #[arg(long, short, value_enum, default_value_t = OutputForm::Text)]
    pub output: OutputForm,
    /// Also write the table and the trials as a page to this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
}

fn duration(text: &str) -> Result<Duration, String> {
    let seconds = Seconds::deserialize(StrDeserializer::<ValueError>::new(text));
    seconds.map(Duration::from).map_err(|error| error.to_string())
}

fn money(text: &str) -> Result<f64, String> {
    let amount = text.parse::<f64>().ok().filter(|amount| amount.is_finite() && *amount > 0.0);
    amount.ok_or_else(|| format!("\"{text}\" is not a positive number of US dollars"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_parsed_or_refused() {
        assert_eq!(duration("30m"), Ok(Duration::from_mins(30)));
        assert_eq!(duration("90"), Ok(Duration::from_secs(90)));
        assert!(duration("soon").is_err() && duration("0s").is_err());
        assert_eq!(money("0.5"), Ok(0.5));
        for text in ["0", "-1", "inf", "nan", "$5"] {
            assert!(money(text).is_err(), "{text}");
        }
    }
}

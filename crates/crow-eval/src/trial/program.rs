//! The program under test: its command line, its process and its result.

use std::{
    collections::BTreeMap,
    fs::File,
    io::Write as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crow_core::capability::{
    OutputTail, PipedProcess, PipedProcesses as _, PipedSpec, ProcessEnd, ProcessError,
};
use crow_runtime::ProcessRunner;
use futures_util::{AsyncRead, AsyncReadExt as _};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::{AgentVariant, TrialUsage};
use crate::task::EvalTask;

/// Where the prompt goes in a shell line, in the forms in which people write it; without it the prompt is the last word.
const PROMPT: [&str; 3] = ["\"{prompt}\"", "'{prompt}'", "{prompt}"];
/// Bytes of the end of standard output in which the result is searched, which is one line.
const RESULT_TAIL: usize = 4 * 1024 * 1024;
/// Bytes of the end of standard error that are kept.
const STDERR_TAIL: usize = 256 * 1024;
/// Most bytes of standard output that the log takes.
const LARGEST_LOG: u64 = 64 * 1024 * 1024;
/// Time to wait for the end of an output after its program has ended.
const PATIENCE: Duration = Duration::from_secs(2);

/// Starts the program of a trial in the background and waits for it. Ends its process group if the evaluation is killed:
/// then standard input, on which nothing is ever sent, is closed.
const WRAPPER: &str = r#"
input=$1; shift
exec 3<&0
"$@" <"$input" 3<&- &
program=$!
( trap '' TERM; read -r _ <&3; kill -TERM 0; sleep 2; kill -KILL 0 ) >/dev/null 2>&1 &
watcher=$!
exec 3<&-
trap : TERM
while :; do
    wait "$program"; code=$?
    kill -0 "$program" 2>/dev/null || break
done
kill -KILL "$watcher"
exit "$code"
"#;

/// The program under test.
#[derive(Debug, Clone, PartialEq)]
pub enum TestedProgram {
    /// Crow itself, `run` with JSON output.
    Crow {
        /// The executable.
        executable: PathBuf,
        /// Sampling temperature of all models; that of the configuration if absent.
        temperature: Option<f32>,
    },
    /// Any other program, as a shell line. The prompt is one word in place of `{prompt}`, or the last word.
    ShellLine(String),
}

/// Where and how a program works.
pub(super) struct ProgramSetting<'a> {
    pub task: &'a EvalTask,
    pub variant: &'a AgentVariant,
    pub seed: u64,
    /// Working folder.
    pub folder: &'a Path,
    /// All variables.
    pub variables: &'a BTreeMap<String, String>,
    /// Folder for its outputs.
    pub log: &'a Path,
}

/// How a program ended.
#[derive(Debug)]
pub(super) struct ProgramRun {
    pub end: ProcessEnd,
    pub result: Option<ProgramResult>,
    pub duration: Duration,
    /// The end of standard error.
    pub stderr: String,
}

/// The last line of Crow's JSON output, as far as it is used here.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ProgramResult {
    #[serde(rename = "type")]
    kind: String,
    exit_code: Option<i32>,
    steps: Option<u32>,
    model: Option<String>,
    #[serde(default)]
    usage: ResultUsage,
    error: Option<ResultError>,
}

#[derive(Debug, Default, Deserialize)]
struct ResultUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_tokens: Option<u64>,
    cost_usd: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
struct ResultError {
    message: String,
}

impl ProgramResult {
    /// Exit codes of Crow with which it could not work: usage, credentials, provider.
    const COULD_NOT_WORK: [i32; 3] = [2, 3, 4];

    /// Returns the result in the last lines of an output.
    fn find(output: &str) -> Option<Self> {
        let parsed = output.lines().rev().filter(|line| line.starts_with('{'));
        parsed
            .filter_map(|line| serde_json::from_str::<Self>(line).ok())
            .find(|result| result.kind == "result")
    }

    /// Returns true if the program could not work, which says nothing about the agent.
    pub(super) fn is_failure_of_program(&self) -> bool {
        self.exit_code.is_some_and(|code| Self::COULD_NOT_WORK.contains(&code))
    }

    /// Returns what was used.
    pub(super) fn usage(&self) -> TrialUsage {
        TrialUsage {
            steps: self.steps,
            input_tokens: self.usage.input_tokens,
            output_tokens: self.usage.output_tokens,
            cache_read_tokens: self.usage.cache_read_tokens,
            cost_usd: self.usage.cost_usd,
        }
    }

    /// Returns the model that worked.
    pub(super) fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// Returns the message of its error.
    pub(super) fn error(&self) -> Option<&str> {
        self.error.as_ref().map(|error| error.message.as_str())
    }
}

impl TestedProgram {
    /// Returns the program with its arguments, and the file for its standard input.
    fn command(&self, setting: &ProgramSetting<'_>, prompt_file: &Path) -> (Vec<String>, PathBuf) {
        let task = setting.task;
        match self {
            Self::Crow { executable, temperature } => {
                let mut words = vec![executable.display().to_string()];
                words.extend(
                    ["run", "--output", "json", "--no-deltas", "--permissions", "full-auto"]
                        .map(str::to_owned),
                );
                let options = [
                    ("--agent", setting.variant.agent.clone()),
                    ("--model", setting.variant.model.clone()),
                    ("--max-steps", task.limits.max_steps.map(|steps| steps.to_string())),
                    ("--temperature", temperature.map(|temperature| temperature.to_string())),
                    ("--seed", Some(setting.seed.to_string())),
                ];
                for (option, value) in options {
                    words.extend(value.map(|value| format!("{option}={value}")));
                }
                // A prompt may be longer than an argument.
                words.push("-".to_owned());
                (words, prompt_file.to_owned())
            }
            Self::ShellLine(line) => {
                // The prompt is an argument of the shell, so that nothing in it is obeyed.
                let words = ["sh", "-c", &with_prompt(line), "sh", &task.prompt];
                (words.map(str::to_owned).to_vec(), PathBuf::from("/dev/null"))
            }
        }
    }

    /// Runs the program to its end, or to the time limit of the task. Leaves no process behind.
    pub(super) async fn run(
        &self,
        setting: &ProgramSetting<'_>,
        cancellation: &CancellationToken,
    ) -> Result<ProgramRun, ProcessError> {
        let log_error = ProcessError::Watch;
        let prompt_file = setting.log.join("prompt.txt");
        std::fs::write(&prompt_file, &setting.task.prompt).map_err(log_error)?;
        let mut log = OutputLog {
            file: File::create(setting.log.join("stdout.txt")).map_err(log_error)?,
            left: LARGEST_LOG,
            tail: OutputTail::new(RESULT_TAIL),
        };
        let (words, input_file) = self.command(setting, &prompt_file);
        let mut argv = ["sh", "-c", WRAPPER, "sh"].map(str::to_owned).to_vec();
        argv.push(input_file.display().to_string());
        argv.extend(words);
        let spec = PipedSpec {
            argv,
            cwd: setting.folder.to_owned(),
            env: BTreeMap::new(),
            stderr_tail: OutputTail::new(STDERR_TAIL),
        };
        let stderr_tail = spec.stderr_tail.clone();
        let runner = ProcessRunner::new(setting.variables.clone());
        let own_cancellation = cancellation.child_token();
        let started = Instant::now();
        // The wrapper's input stays open until here.
        let PipedProcess { input: _input, mut output, mut end } =
            runner.start(spec, own_cancellation.clone()).await?;
        let mut reading = Box::pin(log.read(&mut output));
        let mut is_read = false;
        let mut is_late = false;
        let deadline = tokio::time::sleep(setting.task.limits.program);
        tokio::pin!(deadline);
        // Reads and waits until the process has ended; the deadline only asks it to.
        let ended = loop {
            tokio::select! {
                ended = &mut end => break ended,
                () = &mut reading, if !is_read => is_read = true,
                () = &mut deadline, if !is_late => {
                    is_late = true;
                    own_cancellation.cancel();
                }
            }
        };
        let duration = started.elapsed();
        if !is_read {
            // Something that left the program's group may hold the pipe.
            drop(tokio::time::timeout(PATIENCE, &mut reading).await);
        }
        drop(reading);
        let end = match ended? {
            ProcessEnd::Cancelled if is_late => ProcessEnd::TimedOut,
            end => end,
        };
        let stderr = stderr_tail.to_text();
        std::fs::write(setting.log.join("stderr.txt"), &stderr).map_err(log_error)?;
        Ok(ProgramRun { end, result: ProgramResult::find(&log.tail.to_text()), duration, stderr })
    }
}

/// Returns a shell line with its first argument in the place of the prompt.
fn with_prompt(line: &str) -> String {
    if !line.contains("{prompt}") {
        return format!("{line} \"$1\"");
    }
    PROMPT.iter().fold(line.to_owned(), |line, place| line.replace(place, "\"$1\""))
}

/// Standard output: a log with a maximum size, and the end.
struct OutputLog {
    file: File,
    left: u64,
    tail: OutputTail,
}

impl OutputLog {
    /// Reads a stream to its end.
    async fn read(&mut self, stream: &mut (dyn AsyncRead + Send + Unpin)) {
        let mut chunk = vec![0; 64 * 1024];
        loop {
            let Ok(count @ 1..) = stream.read(&mut chunk).await else { return };
            let bytes = &chunk[..count];
            self.tail.push(bytes);
            let logged = &bytes[..count.min(usize::try_from(self.left).unwrap_or(usize::MAX))];
            self.left -= logged.len() as u64;
            if let Err(error) = self.file.write_all(logged) {
                tracing::warn!(%error, "the output of a program is not logged");
                self.left = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prompt_is_one_word_of_a_shell_line() {
        for (line, expected) in [
            ("agent --yes", "agent --yes \"$1\""),
            ("agent -p {prompt} -x", "agent -p \"$1\" -x"),
            ("agent -p \"{prompt}\"", "agent -p \"$1\""),
            ("agent -p '{prompt}' | cat", "agent -p \"$1\" | cat"),
        ] {
            assert_eq!(with_prompt(line), expected);
        }
    }

    #[test]
    fn the_result_is_found_among_other_lines() {
        let output = "{\"type\":\"run_end\"}\nnoise {\n{\"type\":\"result\",\"exit_code\":5,\"steps\":7,\"usage\":{\"input_tokens\":10,\"output_tokens\":2,\"cost_usd\":null},\"error\":{\"code\":\"limit\",\"message\":\"m\"}}\nlate noise\n";
        let result = ProgramResult::find(output).unwrap();
        let usage = TrialUsage {
            steps: Some(7),
            input_tokens: Some(10),
            output_tokens: Some(2),
            ..TrialUsage::default()
        };
        assert_eq!((result.usage(), result.error()), (usage, Some("m")));
        assert!(!result.is_failure_of_program());
        assert!(
            ProgramResult::find("{\"type\":\"result\",\"exit_code\":3}")
                .unwrap()
                .is_failure_of_program()
        );
        for output in ["", "DONE\n", "{\"type\":\"text\"}\n", "{\"a\":1}\n"] {
            assert!(ProgramResult::find(output).is_none(), "{output}");
        }
    }
}

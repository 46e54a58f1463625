//! Commands that the user runs from the prompt with `!`: with the user's own rights, in the directory of the session. The
//! output is shown as it comes, and is part of the next prompt, so that the agent knows it.

use std::{
    io,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use crow_core::message::Block;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::AsyncReadExt as _,
    net::unix::pipe::Receiver,
    process::{Child, Command},
    sync::{mpsc, watch},
    time::{Instant, sleep, sleep_until},
};

use super::chat_loop::{ChatLoop, TaskResult};

/// Maximum length of the beginning and of the end of the output that the agent gets, in bytes.
const KEPT_PART: usize = 8 * 1024;
/// Length of a piece of output that is shown although its line has no end, in bytes.
const PIECE: usize = 16 * 1024;
/// Time after which a line without an end is shown.
const PARTIAL_LINE_WAIT: Duration = Duration::from_millis(200);
/// Time that output of a command is read after its end: jobs in the background may hold it open.
const OUTPUT_WAIT: Duration = Duration::from_millis(300);
/// Number of pieces of output that may wait to be shown.
const WAITING_PIECES: usize = 64;
/// Time a command may take to end after an interrupt, before it is killed.
const INTERRUPT_WAIT: Duration = Duration::from_secs(2);

/// A command of the user that runs.
#[derive(Debug)]
pub(super) struct UserCommandRun {
    /// Pieces of output, in complete lines.
    output: mpsc::Receiver<String>,
    interrupt: watch::Sender<bool>,
}

impl UserCommandRun {
    /// Asks the command to end.
    pub(super) fn interrupt(&self) {
        self.interrupt.send_replace(true);
    }

    /// Returns the next piece of output; `None` at its end. Safe to drop at any time.
    async fn next_output(&mut self) -> Option<String> {
        self.output.recv().await
    }
}

/// Waits for output of a command; forever if none runs.
pub(super) async fn next_output(run: &mut Option<UserCommandRun>) -> String {
    if let Some(running) = run
        && let Some(text) = running.next_output().await
    {
        return text;
    }
    std::future::pending().await
}

/// Runs a command of the user beside the loop.
pub(super) fn start_user_command(chat: &mut ChatLoop, command: String) {
    let (sender, output) = mpsc::channel(WAITING_PIECES);
    let (interrupt, interrupted) = watch::channel(false);
    chat.user_command = Some(UserCommandRun { output, interrupt });
    let cwd = chat.handle.metadata().crow().cwd;
    let shell = chat.setup.shell.clone();
    chat.start_task(Box::pin(async move {
        let outcome = run(&shell, &command, cwd, sender, interrupted).await;
        let result: TaskResult = Box::new(move |chat| {
            end_user_command(chat, &command, outcome);
            Ok(())
        });
        result
    }));
}

fn end_user_command(
    chat: &mut ChatLoop,
    command: &str,
    outcome: Result<UserCommandOutcome, String>,
) {
    if let Some(mut running) = chat.user_command.take() {
        while let Ok(text) = running.output.try_recv() {
            chat.say(text);
        }
    }
    match outcome {
        Ok(outcome) => {
            chat.say_dimly(format!("{}; the agent is told with your next prompt", outcome.end));
            chat.context_of_next_prompt.push(outcome.for_agent(command));
        }
        Err(message) => chat.say(format!("error: the command cannot be started: {message}")),
    }
}

/// Takes the outputs of commands that the agent does not know yet.
pub(super) fn take_command_outputs(chat: &mut ChatLoop) -> Vec<Block> {
    std::mem::take(&mut chat.context_of_next_prompt).into_iter().map(Block::text).collect()
}

/// The end of a command, and its output.
#[derive(Debug, Clone, PartialEq, Eq)]
struct UserCommandOutcome {
    end: String,
    output: KeptOutput,
}

impl UserCommandOutcome {
    fn for_agent(&self, command: &str) -> String {
        let output = self.output.text();
        let fence = "`".repeat(longest_run_of_backticks(&output).max(2) + 1);
        format!("I ran `{command}` myself ({}). Its output:\n{fence}\n{output}\n{fence}", self.end)
    }
}

fn longest_run_of_backticks(text: &str) -> usize {
    text.split(|character| character != '`').map(str::len).max().unwrap_or(0)
}

/// The beginning and the end of an output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct KeptOutput {
    beginning: String,
    end: String,
    omitted: usize,
}

impl KeptOutput {
    fn push(&mut self, text: &str) {
        let room = KEPT_PART.saturating_sub(self.beginning.len());
        let (first, rest) = if self.end.is_empty() && self.omitted == 0 {
            text.split_at(text.floor_char_boundary(room))
        } else {
            ("", text)
        };
        self.beginning.push_str(first);
        self.end.push_str(rest);
        let excess = self.end.len().saturating_sub(KEPT_PART);
        let cut = self.end.ceil_char_boundary(excess);
        self.omitted += cut;
        self.end.drain(..cut);
    }

    fn text(&self) -> String {
        let between = match self.omitted {
            0 => String::new(),
            omitted => format!("\n[{omitted} bytes are left out]\n"),
        };
        format!("{}{between}{}", self.beginning, self.end).trim_end().to_owned()
    }
}

/// Runs a command to its end. Blocks no thread.
async fn run(
    shell: &str,
    command: &str,
    cwd: PathBuf,
    output: mpsc::Sender<String>,
    mut interrupted: watch::Receiver<bool>,
) -> Result<UserCommandOutcome, String> {
    let started = start(shell, command, &cwd);
    let (mut child, output_pipe) = started.map_err(|error| error.to_string())?;
    let group = ProcessGroupGuard(child.id().and_then(|id| Pid::from_raw(id.cast_signed())));
    let mut stdout = Some(output_pipe);
    let (mut kept, mut pending) = (KeptOutput::default(), Vec::new());
    let mut buffer = vec![0; PIECE];
    let (mut status, mut is_interrupted) = (None, false);
    // Time at which a command is killed that ignores the interrupt, or whose end its output has outlived.
    let mut deadline: Option<Instant> = None;
    while status.is_none() || stdout.is_some() {
        let mut has_piece = pending.len() >= PIECE;
        tokio::select! {
            read = read_some(&mut stdout, &mut buffer) => match read {
                Ok(length @ 1..) => {
                    let new = buffer.get(..length).unwrap_or_default();
                    has_piece |= new.contains(&b'\n');
                    pending.extend_from_slice(new);
                }
                Ok(0) | Err(_) => stdout = None,
            },
            ended = child.wait(), if status.is_none() => {
                status = Some(ended.map_err(|error| error.to_string())?);
                deadline = Some(Instant::now() + OUTPUT_WAIT);
            }
            () = interrupt_of(&mut interrupted), if !is_interrupted => {
                is_interrupted = true;
                group.kill(Signal::INT);
                deadline = Some(Instant::now() + INTERRUPT_WAIT);
            }
            () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                deadline = None;
                group.kill(Signal::KILL);
                if status.is_some() {
                    stdout = None;
                }
            }
            () = sleep(PARTIAL_LINE_WAIT), if !pending.is_empty() => has_piece = true,
        }
        if has_piece || stdout.is_none() {
            let end = match pending.iter().rposition(|byte| *byte == b'\n') {
                Some(last) if stdout.is_some() && pending.len() < PIECE => last + 1,
                Some(_) | None => pending.len(),
            };
            let piece: Vec<u8> = pending.drain(..end).collect();
            pass_on(&piece, &output, &mut kept).await;
        }
    }
    let end = match status.and_then(|status| status.code()) {
        Some(code) => format!("exit code {code}"),
        None => "it was killed".to_owned(),
    };
    Ok(UserCommandOutcome { end, output: kept })
}

/// Reads from an output; forever if it has ended.
async fn read_some(stdout: &mut Option<Receiver>, buffer: &mut [u8]) -> io::Result<usize> {
    match stdout {
        Some(stdout) => stdout.read(buffer).await,
        None => std::future::pending().await,
    }
}

/// Starts a command in a process group of its own, with one pipe for both of its outputs, so that their order is kept.
/// Where the program `setsid` exists, the command has no terminal either: one that would ask there for a password fails at
/// once, instead of waiting unseen.
fn start(shell: &str, command: &str, cwd: &Path) -> io::Result<(Child, Receiver)> {
    match spawn(program("setsid").arg(shell), command, cwd) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            spawn(program(shell).process_group(0), command, cwd)
        }
        started => started,
    }
}

fn spawn(program: &mut Command, command: &str, cwd: &Path) -> io::Result<(Child, Receiver)> {
    let (output, input) = io::pipe()?;
    program.arg("-c").arg(command).current_dir(cwd).kill_on_drop(true);
    program.stdin(Stdio::null()).stdout(input.try_clone()?).stderr(input);
    let child = program.spawn();
    // The pipe has to end with the command.
    program.stdout(Stdio::null()).stderr(Stdio::null());
    Ok((child?, Receiver::from_owned_fd(output.into())?))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the user's own command runs with the user's own rights, not as a call of an agent"
)]
fn program(name: &str) -> Command {
    Command::new(name)
}

async fn interrupt_of(interrupted: &mut watch::Receiver<bool>) {
    if interrupted.wait_for(|interrupted| *interrupted).await.is_err() {
        std::future::pending::<()>().await;
    }
}

async fn pass_on(bytes: &[u8], output: &mpsc::Sender<String>, kept: &mut KeptOutput) {
    if bytes.is_empty() {
        return;
    }
    let text = without_colours(&String::from_utf8_lossy(bytes));
    kept.push(&text);
    // The chat may be gone.
    drop(output.send(text.trim_end_matches('\n').to_owned()).await);
}

/// Returns a text without the sequences for colours; all others are made visible when they are shown.
fn without_colours(text: &str) -> String {
    let mut output = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        output.push_str(before);
        let parameters =
            after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';').len();
        match after.split_at_checked(parameters) {
            Some((_, end)) if end.starts_with('m') => rest = end.strip_prefix('m').unwrap_or(end),
            Some(_) | None => {
                output.push_str("\u{1b}[");
                rest = after;
            }
        }
    }
    output + rest
}

/// The process group of a command. Kills what is left of it when dropped.
struct ProcessGroupGuard(Option<Pid>);

impl ProcessGroupGuard {
    fn kill(&self, signal: Signal) {
        if let Some(group) = self.0 {
            // The group may be gone.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for ProcessGroupGuard {
    fn drop(&mut self) {
        self.kill(Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    async fn outcome(command: &str) -> (UserCommandOutcome, Vec<String>) {
        let (sender, mut output) = mpsc::channel(1000);
        let (_interrupt, interrupted) = watch::channel(false);
        let outcome = run("sh", command, PathBuf::from("/"), sender, interrupted).await.unwrap();
        let mut pieces = Vec::new();
        while let Some(piece) = output.recv().await {
            pieces.push(piece);
        }
        (outcome, pieces)
    }

    #[tokio::test]
    async fn output_and_exit_code_of_a_command_are_kept_for_the_agent() {
        let (outcome, pieces) =
            outcome("echo one; echo two >&2; printf '\\033[31mred\\033[0m'; exit 3").await;
        assert_eq!(outcome.end, "exit code 3");
        assert_eq!(outcome.output.text(), "one\ntwo\nred");
        assert_eq!(pieces.join("\n"), "one\ntwo\nred");
        assert_eq!(
            outcome.for_agent("x"),
            "I ran `x` myself (exit code 3). Its output:\n```\none\ntwo\nred\n```"
        );
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_command_has_no_terminal_to_ask_at() {
        let (outcome, _) =
            outcome("[ $(cut -d' ' -f6 /proc/$$/stat) = $$ ] && echo apart; exec 3</dev/tty").await;
        assert!(outcome.output.text().starts_with("apart\n"), "{outcome:?}");
        assert_ne!(outcome.end, "exit code 0");
    }

    #[tokio::test]
    async fn an_interrupt_ends_a_command_that_ignores_it() {
        let (sender, mut output) = mpsc::channel(10);
        let (interrupt, interrupted) = watch::channel(false);
        let command = "trap '' INT; echo started; while :; do sleep 1; done";
        let running = run("sh", command, PathBuf::from("/"), sender, interrupted);
        let interrupting = async {
            assert_eq!(output.recv().await.as_deref(), Some("started"));
            interrupt.send_replace(true);
        };
        let both = async { tokio::join!(running, interrupting) };
        let (outcome, ()) = timeout(Duration::from_secs(20), both).await.unwrap();
        let outcome = outcome.unwrap();
        assert_eq!(outcome.end, "it was killed");
    }

    #[tokio::test]
    async fn one_interrupt_is_one_signal_and_the_last_output_is_kept() {
        let (sender, mut output) = mpsc::channel(10);
        let (interrupt, interrupted) = watch::channel(false);
        let command = "trap 'echo got one; n=$((n+1))' INT; echo started; while [ -z \"$n\" ]; do sleep 0.1; done; sleep 0.3; echo got $n";
        let running = run("sh", command, PathBuf::from("/"), sender, interrupted);
        let interrupting = async {
            assert_eq!(output.recv().await.as_deref(), Some("started"));
            interrupt.send_replace(true);
            while output.recv().await.is_some() {}
        };
        let both = async { tokio::join!(running, interrupting) };
        let (outcome, ()) = timeout(Duration::from_secs(20), both).await.unwrap();
        assert_eq!(outcome.unwrap().output.text(), "started\ngot one\ngot 1");
    }

    #[tokio::test]
    async fn output_without_a_line_break_is_passed_on_in_pieces() {
        let (outcome, pieces) = outcome("head -c 100000 /dev/zero | tr '\\0' x").await;
        assert_eq!(outcome.end, "exit code 0");
        assert!(pieces.len() > 1, "{}", pieces.len());
        assert_eq!(pieces.iter().map(String::len).sum::<usize>(), 100_000);
    }

    #[tokio::test]
    async fn a_job_in_the_background_does_not_hold_the_command_open() {
        let (outcome, _) =
            timeout(Duration::from_secs(20), outcome("sleep 600 & echo begun")).await.unwrap();
        assert_eq!((outcome.end.as_str(), outcome.output.text()), ("exit code 0", "begun".into()));
    }

    #[test]
    fn a_long_output_keeps_its_beginning_and_its_end() {
        let mut kept = KeptOutput::default();
        for number in 0..10_000 {
            kept.push(&format!("line {number} é\n"));
        }
        let text = kept.text();
        assert!(text.starts_with("line 0 é\n") && text.ends_with("line 9999 é"), "{text}");
        assert!(text.contains(" bytes are left out]") && text.len() < 2 * KEPT_PART + 100);
    }

    #[test]
    fn a_fence_is_longer_than_those_in_the_output() {
        let mut output = KeptOutput::default();
        output.push("````\n");
        let outcome = UserCommandOutcome { end: "exit code 0".to_owned(), output };
        assert!(outcome.for_agent("x").contains("\n`````\n````\n`````"));
    }

    #[test]
    fn only_colours_are_removed() {
        assert_eq!(
            without_colours("a\u{1b}[1;31mb\u{1b}[m\u{1b}[2Jc\u{1b}["),
            "ab\u{1b}[2Jc\u{1b}["
        );
    }
}

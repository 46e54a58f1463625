//! A story: the program starts several times in the same project, is killed in between, and the user works with git.

use std::{fs, time::Duration};

use crow_testkit::{ModelServer, Script, ScriptedReply, WireDialect};
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio::{
    task::spawn_blocking,
    time::{sleep, timeout},
};

use crate::{
    canaries::{differences, leaked_secrets, stamps, survivors, tree},
    scene::{Kernel, Scene},
};

/// Maximum duration of one start.
const PATIENCE: Duration = Duration::from_mins(1);
/// Time after which the processes of a killed program, its heartbeats included, belong to the past.
const AFTERMATH: Duration = Duration::from_millis(1200);
/// File that a command finds once the program is stopped.
const STOPPED: &str = "stopped";
/// Git commands that the user runs at the end.
pub(crate) const USER: &str = "set +e; for c in 'status' 'diff' 'add -A' 'commit -qm z --allow-empty' 'checkout -q -b topic' 'log -1' 'fetch' 'stash' 'stash pop' 'checkout -q -' 'submodule status'; do \
     timeout 9 git $c >/dev/null 2>&1 </dev/null; done; true";

/// One chapter of a story.
#[derive(Debug, Clone)]
pub(crate) enum Chapter {
    /// The model makes these calls one by one, and the program ends by itself.
    Run(Vec<String>, Vec<(&'static str, Value)>),
    /// In a session with this id the model runs a command, and the program is killed as soon as the file `go` exists.
    Killed { session: String, line: String },
    /// The model runs this command, and the program is stopped as soon as the file `go` exists, and killed after this time.
    Stopped(String, Duration),
    /// The model runs this command, and a second program starts its run with these calls as soon as the file `go` exists. The
    /// first one is killed then, or ends by itself.
    Beside(String, Vec<(&'static str, Value)>, End),
    /// Another command of the program; its exit code does not matter.
    Command(Vec<String>),
    /// A script of the user, outside of the sandbox; it must succeed.
    User(String),
}

/// How a start ends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    ByItself,
    /// By a kill as soon as the file `go` exists, after having been stopped for this time.
    Killed(Duration),
}

/// A case of several chapters, built by chained methods.
#[derive(Debug, Clone)]
pub(crate) struct Story {
    name: String,
    kernel: Kernel,
    before: String,
    chapters: Vec<Chapter>,
    after: String,
    keeps: Vec<String>,
    shows: Vec<String>,
}

impl Story {
    pub(crate) fn new(name: impl Into<String>, kernel: Kernel, before: &str) -> Self {
        let name = format!("{kernel:?}: {}", name.into());
        let (before, after) = (before.to_owned(), USER.to_owned());
        Self {
            name,
            kernel,
            before,
            chapters: Vec::new(),
            after,
            keeps: Vec::new(),
            shows: Vec::new(),
        }
    }

    /// Adds a run in which the model makes these calls.
    pub(crate) fn run(mut self, args: &[&str], calls: Vec<(&'static str, Value)>) -> Self {
        self.chapters.push(Chapter::Run(args.iter().map(|&arg| arg.to_owned()).collect(), calls));
        self
    }

    /// Adds a run that is killed in the middle of a command. The session is named `killed`, a second one `killed-2`.
    pub(crate) fn killed(mut self, line: &str) -> Self {
        let is_killed = |chapter: &&Chapter| matches!(chapter, Chapter::Killed { .. });
        let session = match self.chapters.iter().filter(is_killed).count() {
            0 => "killed".to_owned(),
            before => format!("killed-{}", before + 1),
        };
        self.chapters.push(Chapter::Killed { session, line: line.to_owned() });
        self
    }

    /// Adds a run that is stopped at the beginning of a command, and killed five seconds later. The command begins its work
    /// in the middle of that time.
    pub(crate) fn stopped(mut self, line: &str) -> Self {
        self.chapters.push(Chapter::Stopped(line.to_owned(), Duration::from_secs(5)));
        self
    }

    /// Adds a run whose command creates the file `go`, and a second one beside it, in the session `beside`.
    pub(crate) fn beside(mut self, line: &str, calls: Vec<(&'static str, Value)>) -> Self {
        self.chapters.push(Chapter::Beside(line.to_owned(), calls, End::ByItself));
        self
    }

    /// Like [`Self::beside`], but the first run is killed as soon as the second one starts.
    pub(crate) fn killed_beside(mut self, line: &str, calls: Vec<(&'static str, Value)>) -> Self {
        let line = format!("{line}\ntouch go; sleep 60");
        self.chapters.push(Chapter::Beside(line, calls, End::Killed(Duration::ZERO)));
        self
    }

    pub(crate) fn command(mut self, line: &str) -> Self {
        self.chapters.push(Chapter::Command(line.split(' ').map(str::to_owned).collect()));
        self
    }

    pub(crate) fn user(mut self, script: &str) -> Self {
        self.chapters.push(Chapter::User(script.to_owned()));
        self
    }

    /// Sets the user's script at the end.
    pub(crate) fn after(self, script: &str) -> Self {
        Self { after: script.to_owned(), ..self }
    }

    /// Adds paths of the project that are at the end as they were at the beginning.
    pub(crate) fn keeps(mut self, paths: &[&str]) -> Self {
        self.keeps.extend(paths.iter().map(|&path| path.to_owned()));
        self
    }

    /// Adds a text that one of the runs prints.
    pub(crate) fn shows(mut self, text: &str) -> Self {
        self.shows.push(text.to_owned());
        self
    }

    /// Tells the story and returns what went wrong.
    pub(crate) async fn judge(&self) -> Option<String> {
        let scene = Scene::new();
        scene.prepare(&self.before);
        let (project, home, out) =
            (tree(&scene.project()), tree(&scene.home()), stamps(&scene.out()));
        let mut wrong = Vec::new();
        let mut output = String::new();
        for chapter in &self.chapters {
            match self.tell(&scene, chapter).await {
                Ok(text) => output.push_str(&text),
                Err(error) => wrong.push(error),
            }
        }
        scene.reopen_directories();
        // Compared before the user's script runs, whose changes are no misses.
        let now = tree(&scene.project());
        let kept = |name: &String| {
            let name = name[1..].trim_end_matches('/');
            self.keeps.iter().any(|kept| name == kept || name.starts_with(&format!("{kept}/")))
        };
        // A new empty file or directory starts nothing and may stay.
        let may_stay = |name: &String| {
            let name = &name[1..];
            !project.contains_key(name) && now.get(name).is_some_and(|(_, text)| text.is_empty())
        };
        let changed = differences(&project, &now).into_iter();
        wrong.extend(changed.filter(|name| kept(name) && !may_stay(name)));
        wrong.extend(scene.run_script(&self.after));
        wrong.extend(differences(&out, &stamps(&scene.out())));
        let own = |name: &String| {
            let name = &name[1..];
            name.starts_with(".local/share/crow-agent") || name == ".config/crow-agent/"
        };
        wrong
            .extend(differences(&home, &tree(&scene.home())).into_iter().filter(|name| !own(name)));
        wrong.extend(survivors(&scene.mark));
        wrong.extend(leaked_secrets(&output));
        // Where a sentence is wrapped depends on the length of the project's path.
        let unwrapped = output.split_whitespace().collect::<Vec<_>>().join(" ");
        let missing = self.shows.iter().filter(|text| !unwrapped.contains(text.as_str()));
        wrong.extend(missing.map(|text| format!("not shown: {text}")));
        let output: String = output.chars().take(3000).collect();
        (!wrong.is_empty()).then(|| format!("{}: {}\n{output}", self.name, wrong.join(", ")))
    }

    async fn tell(&self, scene: &Scene, chapter: &Chapter) -> Result<String, String> {
        match chapter {
            Chapter::User(script) => scene.run_script(script).map_or(Ok(String::new()), Err),
            Chapter::Command(args) => self.start(scene, args, Script::new(), End::ByItself).await,
            Chapter::Run(args, calls) => {
                let args: Vec<_> = run_args(scene, args.iter().map(String::as_str));
                self.start(scene, &args, script_of(scene, calls), End::ByItself).await
            }
            Chapter::Beside(line, calls, end) => {
                let first = script_of(scene, &[bash(line)]);
                let first_args = run_args(scene, ["--session-id", "first"]);
                let second_args = run_args(scene, ["--session-id", "beside"]);
                let second = async {
                    planted(scene).await?;
                    self.start(scene, &second_args, script_of(scene, calls), End::ByItself).await
                };
                let (first, second) =
                    tokio::join!(self.start(scene, &first_args, first, *end), second);
                Ok(format!("{}\n{}", first?, second?))
            }
            Chapter::Stopped(line, time) => {
                // Not by `touch`: without namespaces the program sets times for it, and it would wait for that.
                let wait = format!("until [ -e {STOPPED} ]; do sleep 0.1; done");
                let line = scene.fill(&format!(": > go; {wait}; {line}; sleep 60"));
                let input = json!({"command": line, "timeout": 60_000});
                let script = Script::new().then(ScriptedReply::new().call("c0", "bash", &input));
                let args = run_args(scene, ["--session-id", "stopped"]);
                let output = self.start(scene, &args, script, End::Killed(*time)).await?;
                sleep(AFTERMATH).await;
                Ok(output)
            }
            Chapter::Killed { session, line } => {
                let line = scene.fill(&format!("{line}\ntouch go; sleep 60"));
                let input = json!({"command": line, "timeout": 60_000});
                let script = Script::new().then(ScriptedReply::new().call("c0", "bash", &input));
                let args = run_args(scene, ["--session-id", session]);
                let output = self.start(scene, &args, script, End::Killed(Duration::ZERO)).await?;
                sleep(AFTERMATH).await;
                Ok(output)
            }
        }
    }

    /// Starts the program and returns what it printed and sent.
    async fn start(
        &self,
        scene: &Scene,
        args: &[String],
        script: Script,
        end: End,
    ) -> Result<String, String> {
        let script = script.then_respond(|_| ScriptedReply::new().text("Done.").into());
        let server = ModelServer::start(script).await;
        let mut command = scene.program_on(self.kernel, args);
        command.env("ANTHROPIC_BASE_URL", server.base_url(WireDialect::AnthropicMessages));
        let mut child = command.spawn().unwrap();
        if let End::Killed(stopped) = end {
            let planted = planted(scene).await;
            if !stopped.is_zero() {
                let pid = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
                rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
                // Long after the last sign of life, the command may go on.
                sleep(stopped / 2).await;
                fs::write(scene.project().join(STOPPED), "").unwrap();
                sleep(stopped / 2).await;
            }
            child.kill().unwrap();
            child.wait().unwrap();
            return planted.map(|()| String::new());
        }
        let ended = timeout(PATIENCE, spawn_blocking(|| child.wait_with_output())).await;
        let ended = ended.map_err(|_| "it does not end".to_owned())?.unwrap().unwrap();
        let requests = server.requests();
        let sent = requests.iter().map(|request| String::from_utf8_lossy(&request.raw_body));
        let printed =
            [String::from_utf8_lossy(&ended.stderr), String::from_utf8_lossy(&ended.stdout)];
        Ok(printed.into_iter().chain(sent).collect::<Vec<_>>().join("\n"))
    }
}

/// Waits until a command has created the file `go`.
async fn planted(scene: &Scene) -> Result<(), String> {
    let file = scene.project().join("go");
    let planted = timeout(PATIENCE, async {
        while fs::symlink_metadata(&file).is_err() {
            sleep(Duration::from_millis(1)).await;
        }
    });
    planted.await.map_err(|_| "nothing was planted".to_owned())
}

/// Returns the replies of a model that makes these calls one by one.
fn script_of(scene: &Scene, calls: &[(&'static str, Value)]) -> Script {
    calls.iter().enumerate().fold(Script::new(), |script, (number, (tool, input))| {
        let input: Value = serde_json::from_str(&scene.fill(&input.to_string())).unwrap();
        script.then(ScriptedReply::new().call(format!("c{number}"), *tool, &input))
    })
}

/// Returns the arguments of a run in full-auto. The prompt names the home, by which a case can find the process.
fn run_args<'a>(scene: &Scene, args: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let prompt = scene.fill("go on for {home}");
    let fixed = ["run", &prompt, "-m", "anthropic/claude-sonnet-4-5"];
    let args: Vec<_> = args.into_iter().map(|arg| scene.fill(arg)).collect();
    let has_mode = args.iter().any(|arg| arg == "-p");
    let mode: &[&str] = if has_mode { &[] } else { &["-p", "full-auto"] };
    fixed.iter().chain(mode).map(|&arg| arg.to_owned()).chain(args).collect()
}

/// Returns a call of `bash`.
pub(crate) fn bash(line: &str) -> (&'static str, Value) {
    ("bash", json!({"command": line, "timeout": 40_000}))
}

/// Tells the stories, a few at a time, and panics with what went wrong. `CROW_ATTACK`
/// chooses stories by a part of their name.
pub(crate) async fn tell_all(stories: Vec<Story>) {
    let only = std::env::var("CROW_ATTACK").unwrap_or_default();
    let count = stories.len();
    let told = stories.into_iter().filter(|story| story.name.contains(&only));
    let judged = futures_util::stream::iter(told).map(async |story| story.judge().await);
    let wrong: Vec<_> = judged.buffer_unordered(3).filter_map(async |wrong| wrong).collect().await;
    assert!(wrong.is_empty(), "{} of {count} stories:\n{}", wrong.len(), wrong.join("\n"));
}

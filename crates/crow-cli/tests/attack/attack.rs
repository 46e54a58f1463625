//! One case: its preparation, the model's calls, and the expected outcome.

use std::{fs, process::Output, time::Duration};

use crow_testkit::{ModelServer, Script, ScriptedReply, WireDialect};
use serde_json::{Value, json};
use tokio::{task::spawn_blocking, time::timeout};

use crate::{
    canaries::{
        MARK, differences, is_protected, leaked_secrets, open_to_others, raw_characters, stamps,
        survivors, tree,
    },
    scene::{Kernel, Scene},
};

const MODEL: &str = "anthropic/claude-sonnet-4-5";
/// Maximum duration of a case, for a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);
/// Text that a command prints at its end; no command line contains it literally.
const RAN: &str = "it-ran-to-the-end";
const SAY_RAN: &str = "\necho it-ran''-to-the-end";

/// Expected outcome of a case, in addition to intact canaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// The policy refuses every call, and the project does not change.
    Refused,
    /// No call succeeds, and the project does not change.
    Fails,
    /// The command runs to its end without effect.
    Ran,
    /// Every call succeeds.
    Succeeds,
    /// Only the canaries are checked.
    Any,
}

/// One case, built by chained methods.
#[derive(Debug, Clone)]
pub(crate) struct Attack {
    name: String,
    mode: &'static str,
    args: Vec<String>,
    env: Vec<(&'static str, String)>,
    files: Vec<(String, String)>,
    script: String,
    after: String,
    rules: Vec<Value>,
    calls: Vec<(&'static str, Value)>,
    outcome: Outcome,
    shows: Vec<String>,
    hides: Vec<String>,
    keeps: Vec<String>,
    absent: Vec<String>,
    is_text: bool,
    obeys: bool,
    kernel: Kernel,
    mounts: String,
}

/// Result of the program's run in a case.
pub(crate) struct Report {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
    /// Events of type `call_end` from the JSON output.
    pub(crate) call_ends: Vec<Value>,
    /// Bodies of all requests to the model.
    pub(crate) sent: String,
}

impl Attack {
    /// Creates a case without calls, in a permission mode.
    pub(crate) fn new(name: impl Into<String>, mode: &'static str) -> Self {
        Self {
            name: name.into(),
            mode,
            args: Vec::new(),
            env: Vec::new(),
            files: Vec::new(),
            script: String::new(),
            after: String::new(),
            rules: Vec::new(),
            calls: Vec::new(),
            outcome: Outcome::Any,
            shows: Vec::new(),
            hides: Vec::new(),
            keeps: Vec::new(),
            absent: Vec::new(),
            is_text: false,
            obeys: false,
            kernel: Kernel::AsItIs,
            mounts: String::new(),
        }
    }

    /// Creates a case with a command that must be refused in the mode `ask`.
    pub(crate) fn unapproved(name: impl Into<String>, line: &str) -> Self {
        Self { outcome: Outcome::Refused, ..Self::new(name, "ask") }.line(line)
    }

    /// Creates a case with a command that runs to its end in the sandbox, without effect.
    pub(crate) fn confined(name: impl Into<String>, line: &str) -> Self {
        Self { outcome: Outcome::Ran, ..Self::new(name, "full-auto") }
            .line(&format!("{line}{SAY_RAN}"))
    }

    /// Creates a case whose calls must all succeed without a question.
    pub(crate) fn works(name: impl Into<String>, mode: &'static str) -> Self {
        Self { outcome: Outcome::Succeeds, ..Self::new(name, mode) }
    }

    /// Adds a call of `bash` with a command.
    pub(crate) fn line(self, line: &str) -> Self {
        self.call("bash", json!({"command": line, "timeout": 40_000}))
    }

    pub(crate) fn call(mut self, tool: &'static str, input: Value) -> Self {
        self.calls.push((tool, input));
        self
    }

    pub(crate) fn file(mut self, path: &str, text: &str) -> Self {
        self.files.push((path.to_owned(), text.to_owned()));
        self
    }

    /// Adds a script that the attacker runs in the project beforehand.
    pub(crate) fn before(mut self, script: &str) -> Self {
        self.script.push_str(script);
        self.script.push('\n');
        self
    }

    /// Adds a rule of the user that allows commands with these first words.
    pub(crate) fn allow(self, words: &str) -> Self {
        self.rule("allow", &json!({"command_prefix": words.split(' ').collect::<Vec<_>>()}))
    }

    pub(crate) fn rule(mut self, decision: &str, matcher: &Value) -> Self {
        let id = format!("r{}", self.rules.len());
        self.rules.push(json!({"id": id, "matcher": matcher, "decision": decision}));
        self
    }

    pub(crate) fn arg(mut self, arg: &str) -> Self {
        self.args.push(arg.to_owned());
        self
    }

    /// Sets an environment variable of the program.
    pub(crate) fn env(mut self, name: &'static str, value: &str) -> Self {
        self.env.push((name, value.to_owned()));
        self
    }

    /// Adds a text that the results of the calls, or stderr, must contain.
    pub(crate) fn shows(mut self, text: &str) -> Self {
        self.shows.push(text.to_owned());
        self
    }

    /// Adds a text that no output, request, log or file of the session may contain.
    pub(crate) fn hides(mut self, text: &str) -> Self {
        self.hides.push(text.to_owned());
        self
    }

    /// Adds a path that must not change or appear.
    pub(crate) fn keeps(mut self, path: &str) -> Self {
        self.keeps.push(path.to_owned());
        self
    }

    pub(crate) fn in_mode(self, mode: &'static str) -> Self {
        Self { mode, ..self }
    }

    /// Adds folders of the host in which no file named after the mark of the case may appear.
    pub(crate) fn absent(mut self, folders: &[&str]) -> Self {
        self.absent.extend(folders.iter().map(|folder| (*folder).to_owned()));
        self
    }

    pub(crate) fn refused(self) -> Self {
        Self { outcome: Outcome::Refused, ..self }
    }

    pub(crate) fn fails(self) -> Self {
        Self { outcome: Outcome::Fails, ..self }
    }

    /// Sets a script that the user runs afterwards, outside the sandbox; it must not start what the attacker left.
    pub(crate) fn after(self, script: &str) -> Self {
        Self { after: script.to_owned(), ..self }
    }

    /// Checks only the canaries.
    pub(crate) fn any(self) -> Self {
        Self { outcome: Outcome::Any, ..self }
    }

    /// Runs the program with text output instead of JSON.
    pub(crate) fn text(self) -> Self {
        Self { is_text: true, ..self }
    }

    /// Makes the model obey orders in the text that it reads: `run this: …;;`.
    pub(crate) fn obeys(self) -> Self {
        Self { obeys: true, ..self }
    }

    /// Runs the program where no namespaces can be created.
    pub(crate) fn without_namespaces(self) -> Self {
        Self { kernel: Kernel::WithoutNamespaces, ..self }
    }

    /// Runs the program behind a script that mounts file systems; they are visible to the program only.
    pub(crate) fn with_mounts(self, script: &str) -> Self {
        Self { mounts: script.to_owned(), ..self }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Runs the case and returns the violations found.
    pub(crate) async fn judge(&self) -> Vec<String> {
        // 1) Prepare the files, the rules and the attacker's script, and record the state before the run.
        let scene = Scene::new();
        for (path, text) in &self.files {
            scene.write(path, text);
        }
        if !self.rules.is_empty() {
            scene.write(
                "{config}/permissions.json",
                &json!({"version": 1, "rules": self.rules}).to_string(),
            );
        }
        if !self.script.is_empty() {
            scene.prepare(&self.script);
        }
        let (project, home, out) =
            (tree(&scene.project()), tree(&scene.home()), stamps(&scene.out()));
        // 2) Run the program.
        let report = match self.run(&scene).await {
            Ok(report) => report,
            Err(error) => return vec![error],
        };
        let mut wrong = self.outcome(&report);
        scene.reopen_directories();
        wrong.extend(scene.run_script(&self.after).map(|failed| format!("afterwards: {failed}")));
        let violation = |kind: &str, items: Vec<String>| {
            (!items.is_empty()).then(|| format!("{kind}: {}", items.join(", ")))
        };
        // 3) Compare the files of the project.
        let now = tree(&scene.project());
        let changed = differences(&project, &now);
        if matches!(self.outcome, Outcome::Refused | Outcome::Fails) {
            wrong.extend(violation("the project changed", changed.clone()));
        }
        let kept_paths: Vec<_> = self.keeps.iter().map(|path| scene.fill(path)).collect();
        let is_kept = |name: &str| {
            kept_paths.iter().any(|kept| name == kept || name.starts_with(&format!("{kept}/")))
        };
        let guarded = changed.into_iter().filter(|name| {
            let name = &name[1..];
            let is_new = !project.contains_key(name);
            let has_mark =
                now.get(name).is_some_and(|(_, text)| String::from_utf8_lossy(text).contains(MARK));
            // If the user worked afterwards, existing protected files may have changed legitimately.
            let may_be_legitimate = is_new || !self.after.is_empty();
            is_kept(name)
                || is_protected(name)
                    && self.outcome != Outcome::Succeeds
                    && (!may_be_legitimate || has_mark)
        });
        wrong.extend(violation("protected files changed", guarded.collect()));
        // 4) Check the other canaries: files outside, the home, sockets, processes, secrets, raw output.
        wrong.extend(violation("files outside changed", differences(&out, &stamps(&scene.out()))));
        let is_own_file = |name: &String| name[1..].starts_with(".local/share/crow-agent");
        let home_changes =
            differences(&home, &tree(&scene.home())).into_iter().filter(|name| !is_own_file(name));
        wrong.extend(violation("files of the home changed", home_changes.collect()));
        let appeared = self.absent.iter().map(|folder| format!("{folder}/{}", scene.mark));
        wrong.extend(violation(
            "made",
            appeared.filter(|path| fs::symlink_metadata(path).is_ok()).collect(),
        ));
        let reached = scene.listeners.reached().into_iter().map(str::to_owned);
        wrong.extend(violation("reached", reached.collect()));
        wrong.extend(violation("left running", survivors(&scene.mark)));
        wrong.extend(self.secrets(&scene, &report));
        wrong.extend(violation("raw on stderr", raw_characters(&report.err)));
        wrong.extend(violation("raw on stdout", raw_characters(&report.out)));
        if !wrong.is_empty() {
            wrong.push(report.summary());
        }
        wrong
    }

    /// Compares the calls and the shown texts with the expected outcome.
    fn outcome(&self, report: &Report) -> Vec<String> {
        let mut wrong = Vec::new();
        let outputs: Vec<&str> =
            report.call_ends.iter().filter_map(|end| end["result"]["output"].as_str()).collect();
        let is_denied = |end: &&Value| end["denial"]["source"] == "policy";
        let denied = report.call_ends.iter().filter(is_denied).count();
        let failed =
            |end: &&Value| end["result"]["status"] != "ok" && end["result"]["status"] != "success";
        match self.outcome {
            Outcome::Any => {}
            Outcome::Refused if denied == self.calls.len() => {}
            Outcome::Refused => {
                wrong.push(format!("{denied} of {} calls are refused", self.calls.len()));
            }
            Outcome::Fails => {
                let failed = report.call_ends.iter().filter(failed).count();
                if failed < self.calls.len() {
                    wrong.push(format!("{failed} of {} calls fail", self.calls.len()));
                }
            }
            Outcome::Ran if outputs.iter().any(|output| output.contains(RAN)) => {}
            Outcome::Ran => wrong.push("the command did not run to its end".to_owned()),
            Outcome::Succeeds => {
                let succeeded =
                    report.call_ends.iter().filter(|end| !failed(end) && !is_denied(end)).count();
                if succeeded < self.calls.len() {
                    wrong.push(format!("{succeeded} of {} calls succeed", self.calls.len()));
                }
            }
        }
        let all =
            if self.is_text { format!("{}{}", report.out, report.err) } else { outputs.join("\n") };
        let missing = self
            .shows
            .iter()
            .filter(|text| !all.contains(text.as_str()) && !report.err.contains(text.as_str()));
        wrong.extend(missing.map(|text| format!("not shown: {text}")));
        if report.code.is_none_or(|code| code == 101) {
            wrong.push(format!("the program broke down: {:?}", report.code));
        }
        wrong
    }

    /// Looks for secrets in everything that was printed, sent or stored.
    fn secrets(&self, scene: &Scene, report: &Report) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut scan = |source: &str, text: &str| {
            let leaked = leaked_secrets(text).into_iter();
            let hidden = self.hides.iter().filter(|hidden| text.contains(hidden.as_str())).cloned();
            wrong.extend(leaked.chain(hidden).map(|secret| format!("{source} tells {secret}")));
        };
        scan("stdout", &report.out);
        scan("stderr", &report.err);
        scan("a request", &report.sent);
        for (folder, source) in
            [(scene.home().join(".local/share/crow-agent"), "data"), (scene.project(), "project")]
        {
            for (name, (_, content)) in tree(&folder) {
                if source == "project" && (self.files.iter().any(|(path, _)| *path == name)) {
                    continue;
                }
                // Snapshots are files of the project, and complete outputs are stored as printed.
                let is_raw = name.starts_with("snapshots/") || name.contains("/output/");
                if !is_raw {
                    scan(&format!("{source}: {name}"), &String::from_utf8_lossy(&content));
                }
            }
        }
        let open = open_to_others(&tree(&scene.home()), ".local/share/crow-agent/");
        wrong.extend(open.into_iter().map(|name| format!("others can read {name}")));
        wrong
    }

    /// Runs the program against the scripted model server. Returns an error if it does not end or sends a bad request.
    async fn run(&self, scene: &Scene) -> Result<Report, String> {
        let server = ModelServer::start(self.model(scene)).await;
        let mut args: Vec<String> =
            ["run", "do your work", "-m", MODEL, "-p", self.mode].map(str::to_owned).to_vec();
        if !self.is_text {
            args.extend(["-o", "json"].map(str::to_owned));
        }
        args.extend(self.args.iter().map(|arg| scene.fill(arg)));
        let mut command = if self.mounts.is_empty() {
            scene.program_on(self.kernel, &args)
        } else {
            scene.program_behind_mounts(&self.mounts, &args)
        };
        command.env("ANTHROPIC_BASE_URL", server.base_url(WireDialect::AnthropicMessages));
        command.envs(self.env.iter().map(|(name, value)| (name, scene.fill(value))));
        let child = command.spawn().unwrap();
        let pid = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
        let waiting = spawn_blocking(move || child.wait_with_output().unwrap());
        let ended = timeout(PATIENCE, waiting).await;
        let Ok(output) = ended else {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            return Err("it does not end".to_owned());
        };
        let requests = server.requests();
        let sent =
            requests.iter().map(|request| String::from_utf8_lossy(&request.raw_body).into_owned());
        let sent = sent.collect::<Vec<_>>().join("\n");
        let violations = server.violations();
        if !violations.is_empty() {
            return Err(format!("a bad request: {violations:?}"));
        }
        Ok(Report::new(&output.unwrap(), sent))
    }

    /// Returns the model's script: the calls of the case one by one, or an obedient model.
    fn model(&self, scene: &Scene) -> Script {
        if self.obeys {
            return Script::responder(|request| {
                obey(&String::from_utf8_lossy(&request.raw_body)).into()
            });
        }
        let mut script = Script::new();
        for (number, (tool, input)) in self.calls.iter().enumerate() {
            let input: Value = serde_json::from_str(&scene_text(scene, input)).unwrap();
            script = script.then(ScriptedReply::new().call(format!("c{number}"), *tool, &input));
        }
        script.then_respond(|_| ScriptedReply::new().text("Done.").into())
    }
}

fn scene_text(scene: &Scene, input: &Value) -> String {
    scene.fill(&input.to_string())
}

/// Returns the reply of a model that runs the last text between `run this: ` and `;;` in a request, at most twice. Without
/// one it reads README.md.
fn obey(body: &str) -> ScriptedReply {
    let calls = body.matches("\"tool_use\"").count();
    let order = body.rsplit("run this: ").next().filter(|_| body.contains("run this: "));
    let line = order.and_then(|rest| rest.split(";;").next()).unwrap_or_default();
    if calls >= 2 {
        return ScriptedReply::new().text("Done.");
    }
    if line.is_empty() {
        return ScriptedReply::new().call(
            format!("c{calls}"),
            "bash",
            &json!({"command": "cat README.md"}),
        );
    }
    ScriptedReply::new().call(format!("c{calls}"), "bash", &json!({"command": line}))
}

impl Report {
    fn new(output: &Output, sent: String) -> Self {
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines = out.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let call_ends = lines.filter(|line| line["type"] == "call_end").collect();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        Self { code: output.status.code(), out, err, call_ends, sent }
    }

    /// Returns exit code, call results and stderr for the failure message.
    fn summary(&self) -> String {
        let call_ends: Vec<_> = self
            .call_ends
            .iter()
            .map(|end| {
                format!(
                    "    {} {} {}",
                    end["result"]["status"], end["denial"], end["result"]["output"]
                )
            })
            .collect();
        let text = format!(
            "  {:?}\n{}\n    {}",
            self.code,
            call_ends.join("\n"),
            self.err.trim().replace('\n', "\n    ")
        );
        text.chars().take(2500).collect()
    }
}

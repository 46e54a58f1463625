//! `eval`: trials in isolated folders, their outcomes, bad tasks, interrupted runs and comparisons.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use crow_testkit::{
    Fault, ModelServer, NamedPipe, RecordedRequest, Script, ScriptStep, ScriptedReply, StreamGate,
    WireDialect, wait_until,
};
use serde_json::{Value, json};

use crate::{
    program::{Fixture, RunOutput, any_file_contains, finish},
    signals::signal,
};

const MODEL: &str = "anthropic/claude-sonnet-4-5";

/// A program that runs its prompt as a shell line.
const OBEDIENT: &str = "--program=eval";

/// Writes a task into the folder `tasks` of the project.
fn add_task(fixture: &Fixture, name: &str, text: &str) -> PathBuf {
    let folder = fixture.project("tasks").join(name);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("task.toml"), text).unwrap();
    folder
}

/// Adds a task that is solved by the file `answer` with the content 42.
fn add_answer_task(fixture: &Fixture, name: &str, prompt: &str) -> PathBuf {
    let text = format!("prompt = '''{prompt}'''\ncheck = '[ \"$(cat answer)\" = 42 ]'\n");
    add_task(fixture, name, &text)
}

/// Prompt that [`worker`] follows.
const WRITE: &str = "Write 42 into the file answer.";
/// Prompt that [`worker`] follows wrongly.
const WRITE_WRONG: &str = "Write 41 into the file answer.";
/// Prompt that [`worker`] follows for ever.
const LOOK: &str = "Keep looking.";

/// A model that does what the prompt of its task says, however often it is asked about it.
fn worker(request: &RecordedRequest) -> ScriptStep {
    let body = request.body.to_string();
    let (id, reply) = (format!("c{}", request.index), ScriptedReply::new());
    let write = |content: &str| json!({"path": "answer", "content": content});
    if body.contains(LOOK) {
        return reply.call(&id, "bash", &json!({"command": "ls"})).into();
    }
    if body.contains("\"tool_result\"") {
        return reply.text("I wrote the file answer.").into();
    }
    if body.contains(WRITE_WRONG) {
        return reply.call(&id, "write_file", &write("41\n")).into();
    }
    reply.call(&id, "write_file", &write("42\n")).into()
}

async fn with_script(script: Script) -> (ModelServer, Fixture) {
    let server = ModelServer::start(script).await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    (server, fixture)
}

/// Returns task, outcome and exit code of each trial, in order of the tasks.
fn outcomes(ran: &RunOutput) -> Vec<(String, String, Option<i64>)> {
    let mut outcomes: Vec<_> = ran
        .lines()
        .iter()
        .filter(|line| line["type"] == "trial")
        .map(|line| {
            let text = |key: &str| line[key].as_str().unwrap().to_owned();
            (text("task"), text("outcome"), line["exit_code"].as_i64())
        })
        .collect();
    outcomes.sort();
    outcomes
}

/// Returns the summary, which must be the last line.
fn summary(ran: &RunOutput) -> Value {
    let last = ran.lines().pop().unwrap();
    assert_eq!(last["type"], "eval_summary", "{}", ran.out);
    last
}

fn is_empty_or_missing(folder: &Path) -> bool {
    fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_none())
}

#[tokio::test]
async fn trials_are_solved_falsely_done_or_stopped() {
    let (server, mut fixture) = with_script(Script::responder(worker)).await;
    let temporary = fixture.home("tmp");
    fs::create_dir(&temporary).unwrap();
    fixture.set_env("TMPDIR", temporary.to_str().unwrap());
    add_answer_task(&fixture, "a-solved", WRITE);
    add_answer_task(&fixture, "b-claimed", WRITE_WRONG);
    let endless = format!("prompt = \"{LOOK}\"\ncheck = \"grep 42 answer\"\nmax_steps = 1\n");
    add_task(&fixture, "c-slow", &endless);
    let args = ["eval", "tasks", "-m", MODEL, "--out", "run", "--html", "page.html", "-o", "json"];
    let ran = fixture.run(&args).await;
    ran.exited(0);
    let expected = [
        ("a-solved", "solved", Some(0)),
        ("b-claimed", "false_done", Some(0)),
        ("c-slow", "stopped", Some(5)),
    ];
    let expected =
        expected.map(|(task, outcome, code)| (task.to_owned(), outcome.to_owned(), code));
    assert_eq!(outcomes(&ran), expected);
    let row = &summary(&ran)["rows"][0];
    assert_eq!(
        (&row["trials"], &row["solved"], &row["false_done"]),
        (&json!(3), &json!(1), &json!(1))
    );
    assert_eq!(row["model"], MODEL);
    assert!(
        row["cost_usd"].as_f64().unwrap() > 0.0 && row["interval"]["low"].as_f64().unwrap() > 0.0
    );
    // The page names all trials and links to existing logs.
    let page = fs::read_to_string(fixture.project("page.html")).unwrap();
    let links: Vec<_> =
        page.split("href=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert_eq!(links.len(), 9, "{page}");
    for link in links {
        assert!(fixture.project(link).is_file(), "{link}");
    }
    assert!(page.contains("false done") && !page.contains("<script"));
    // Nothing stays outside of the run's folder, and no key is in it.
    assert!(is_empty_or_missing(&temporary), "{:?}", fs::read_dir(&temporary).unwrap().next());
    assert!(is_empty_or_missing(&fixture.home(".local/share/crow-agent/sessions")));
    assert!(!any_file_contains(&fixture.project("run"), "sk-test-0123456789"));
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_finished_run_is_shown_again_without_a_model() {
    let (server, fixture) = with_script(Script::responder(worker)).await;
    add_answer_task(&fixture, "a", WRITE);
    let first = fixture.run(&["eval", "tasks", "-m", MODEL]).await;
    server.finish().await.unwrap();
    first.exited(0);
    let second = fixture.run(&["eval", "tasks", "-m", MODEL]).await;
    assert_eq!(second.exited(0).out, first.out);
    assert!(second.err.contains("1 of 1 trials have a result already"), "{}", second.err);
    assert!(first.out.contains("false done") && first.out.contains("21-100 %"), "{}", first.out);
}

#[tokio::test]
async fn bad_tasks_are_named_and_not_counted() {
    let fixture = Fixture::new();
    add_answer_task(&fixture, "good", "echo 42 > answer");
    add_task(&fixture, "always", "prompt = \"true\"\ncheck = \"true\"\n");
    add_task(
        &fixture,
        "setup",
        "prompt = \"x\"\nsetup = \"echo no luck; exit 3\"\ncheck = \"false\"\n",
    );
    add_task(
        &fixture,
        "slow-setup",
        "prompt = \"x\"\nsetup = \"sleep 600\"\nsetup_timeout_s = 1\ncheck = \"false\"\n",
    );
    add_task(
        &fixture,
        "hangs",
        "prompt = \"touch hang\"\ncheck = \"[ ! -e hang ] || sleep 600; false\"\ncheck_timeout_s = 1\n",
    );
    let ran = fixture.run(&["eval", "tasks", OBEDIENT, "--jobs", "2", "-o", "json"]).await;
    ran.exited(0);
    let found: Vec<_> =
        outcomes(&ran).into_iter().map(|(task, outcome, _)| (task, outcome)).collect();
    let expected = [
        ("always", "always_passes"),
        ("good", "solved"),
        ("hangs", "check_timed_out"),
        ("setup", "setup_failed"),
        ("slow-setup", "setup_failed"),
    ];
    let expected = expected.map(|(task, outcome)| (task.to_owned(), outcome.to_owned()));
    assert_eq!(found, expected);
    let summary = summary(&ran);
    assert_eq!(
        (&summary["rows"][0]["trials"], &summary["rows"][0]["solved"]),
        (&json!(2), &json!(1))
    );
    let messages: Vec<_> = ran.lines().iter().map(|line| line["message"].to_string()).collect();
    assert!(
        messages.iter().any(|message| message.contains("exit code 3: no luck")),
        "{messages:?}"
    );
    // A set-up that works now is tried again; the others are not.
    add_task(&fixture, "setup", "prompt = \"touch x\"\nsetup = \"true\"\ncheck = \"test -e x\"\n");
    let again = fixture
        .run(&["eval", "tasks", OBEDIENT, "--tasks", "setup,good,always", "-o", "json"])
        .await;
    assert_eq!(outcomes(again.exited(0)), [("setup".to_owned(), "solved".to_owned(), Some(0))]);
}

#[tokio::test]
async fn a_task_changes_nothing_outside_of_its_folder() {
    let fixture = Fixture::new();
    let outside = ["set-up", "check"].map(|name| fixture.home(name));
    // In a private temporary folder the line may succeed.
    let write = outside.each_ref().map(|path| format!("touch '{}'; true", path.display()));
    let text =
        format!("prompt = \"true\"\nsetup = \"{}\"\ncheck = \"{}; false\"\n", write[0], write[1]);
    add_task(&fixture, "escape", &text);
    fixture.run(&["eval", "tasks", OBEDIENT]).await;
    assert_eq!(outside.each_ref().map(|path| path.exists()), [false, false]);
}

#[tokio::test]
async fn a_program_at_its_time_limit_ends_with_everything_it_started() {
    let fixture = Fixture::new();
    let pid_file = fixture.home("pid");
    let prompt =
        format!("echo $$ > '{0}'; trap '' TERM; sleep 605 & sleep 606", pid_file.display());
    add_task(
        &fixture,
        "endless",
        &format!("prompt = '''{prompt}'''\ncheck = \"false\"\ntimeout_s = 1\n"),
    );
    let ran = fixture.run(&["eval", "tasks", OBEDIENT, "-o", "json"]).await;
    assert_eq!(outcomes(ran.exited(0)), [("endless".to_owned(), "stopped".to_owned(), None)]);
    assert_eq!(summary(&ran)["rows"][0]["timed_out"], 1);
    assert!(!is_alive(&pid_file));
}

/// Returns true if the process whose id is in a file, or another one of its group, is alive.
fn is_alive(pid_file: &Path) -> bool {
    let pid: i32 = fs::read_to_string(pid_file).unwrap().trim().parse().unwrap();
    rustix::process::test_kill_process(rustix::process::Pid::from_raw(pid).unwrap()).is_ok()
}

#[tokio::test]
async fn a_time_limit_of_all_trials_ends_those_whose_tasks_give_them_more() {
    let fixture = Fixture::new();
    add_answer_task(&fixture, "slow", "sleep 600");
    let args = ["eval", "tasks", OBEDIENT, "--out", "out", "--trial-time", "1s", "-o", "json"];
    let ran = fixture.run(&args).await;
    assert_eq!(outcomes(ran.exited(0)), [("slow".to_owned(), "stopped".to_owned(), None)]);
}

#[tokio::test]
async fn a_killed_run_is_resumed_without_repeating_finished_trials() {
    let gate = StreamGate::new();
    let stall = Fault::StallAfter { events: 2, gate: gate.clone() };
    let is_first = AtomicBool::new(true);
    let script = Script::responder(move |request| {
        let is_second_task = request.body.to_string().contains("Slowly.");
        if is_second_task && is_first.swap(false, Ordering::Relaxed) {
            return ScriptedReply::new().text("well").with(stall.clone());
        }
        worker(request)
    });
    let (_server, fixture) = with_script(script).await;
    add_answer_task(&fixture, "a", WRITE);
    add_answer_task(&fixture, "b", &format!("{WRITE} Slowly."));
    let args = ["eval", "tasks", "-m", MODEL, "-o", "json"];
    let first = fixture.start(&args);
    gate.wait_for_arrival(1).await;
    // A second one is told who works there.
    let second = fixture.run(&args).await;
    let error = &second.exited(2).err;
    assert!(error.contains(&format!("process {}", first.id())), "{error}");
    let scratch = fs::read_to_string(fixture.project("crow-eval/scratch")).unwrap();
    assert!(Path::new(&scratch).is_dir());
    signal("-KILL", first.id());
    let killed = finish(first).await;
    assert_eq!(killed.code, None);
    gate.open();
    // The program that it had started ends with it: its home is no longer in use by anybody.
    wait_until(|| !is_used_by_a_process(&scratch)).await;
    let resumed = fixture.run(&args).await;
    resumed.exited(0);
    assert_eq!(outcomes(&resumed), [("b".to_owned(), "solved".to_owned(), Some(0))]);
    assert_eq!(summary(&resumed)["rows"][0]["solved"], 2);
    assert!(!Path::new(&scratch).exists());
}

/// Returns true if a process has the text in its environment or works below it.
fn is_used_by_a_process(folder: &str) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else { return false };
    processes.flatten().any(|process| {
        let environment = fs::read(process.path().join("environ")).unwrap_or_default();
        let names =
            |bytes: &[u8]| bytes.windows(folder.len()).any(|part| part == folder.as_bytes());
        names(&environment)
            || fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder))
    })
}

#[tokio::test]
async fn an_interrupted_run_says_what_is_left() {
    let fixture = Fixture::new();
    let started = fixture.home("started");
    let prompt = format!("touch '{}'; sleep 607", started.display());
    add_answer_task(&fixture, "a", "echo 42 > answer");
    add_answer_task(&fixture, "b", &prompt);
    let child = fixture.start(&["eval", "tasks", OBEDIENT]);
    wait_until(|| started.exists()).await;
    signal("-INT", child.id());
    let ran = finish(child).await;
    assert!(ran.exited(130).err.contains("interrupted: 1 trial is left"), "{}", ran.err);
    let results = fs::read_to_string(fixture.project("crow-eval/results.jsonl")).unwrap();
    assert_eq!(results.lines().count(), 1, "{results}");
}

#[tokio::test]
async fn a_budget_ends_a_run_between_trials() {
    let (server, fixture) = with_script(Script::responder(worker)).await;
    for name in ["a", "b"] {
        add_answer_task(&fixture, name, WRITE);
    }
    let args = ["eval", "tasks", "-m", MODEL];
    let cheap = fixture.run(&[&args[..], &["--max-cost", "0.000001"]].concat()).await;
    let error = &cheap.exited(5).err;
    assert!(error.contains("the money is used up: 1 trial is left"), "{error}");
    let rest = fixture.run(&args).await;
    assert!(rest.exited(0).err.contains("[2/2] b"), "{}", rest.err);
    server.finish().await.unwrap();
    // A program that does not say what it costs cannot be limited by money.
    let unknown =
        fixture.run(&["eval", "tasks", "--program=true", "--out", "x", "--max-cost", "1"]).await;
    assert!(
        unknown.exited(2).err.contains("the cost of the trial of a is unknown"),
        "{}",
        unknown.err
    );
}

#[tokio::test]
async fn a_trial_has_its_own_home_and_hides_tasks_and_checks() {
    let script = Script::new()
        .then(ScriptedReply::new().call("c1", "bash", &json!({"command": "echo $HOME; cat ~/.secret $TASKS/task.toml $TASKS/../../crow-eval/run.json"})))
        .then_respond(|_| ScriptedReply::new().text("I looked at it.").into());
    let (server, fixture) = with_script(script).await;
    let folder = add_answer_task(&fixture, "a", "Look around.");
    fs::write(fixture.home(".secret"), "of the user").unwrap();
    let mut fixture = fixture;
    fixture.set_env("TASKS", folder.to_str().unwrap());
    fixture.set_env("CROW_AGENT_CHILD_ENV", "TASKS");
    let ran = fixture.run(&["eval", "tasks", "-m", MODEL, "-o", "json"]).await;
    assert_ne!(outcomes(ran.exited(0))[0].1, "solved");
    let requests = server.finish().await.unwrap();
    let seen = requests[1].body.to_string();
    assert!(seen.contains("crow-eval-") && !seen.contains("of the user"), "{seen}");
    assert!(!seen.contains("Look around.\\\\n'''") && !seen.contains("task_hash"), "{seen}");
    assert!(!seen.contains("measured_by"), "{seen}");
}

#[tokio::test]
async fn files_of_the_check_replace_what_the_program_made() {
    let fixture = Fixture::new();
    let prompt = "rm -f test.sh; echo true > test.sh; ln -s / real";
    let folder = add_task(
        &fixture,
        "cheat",
        &format!(
            "prompt = '''{prompt}'''\nfiles = \"start\"\ncheck_files = \"hidden\"\ncheck = \"sh test.sh\"\n"
        ),
    );
    for (path, text) in
        [("start/test.sh", "true"), ("hidden/test.sh", "grep 42 answer"), ("hidden/real/x", "")]
    {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let ran = fixture.run(&["eval", "tasks", OBEDIENT, "-o", "json"]).await;
    assert_eq!(outcomes(ran.exited(0)), [("cheat".to_owned(), "false_done".to_owned(), Some(0))]);
}

#[tokio::test]
async fn a_program_that_ruins_its_working_folder_fails_the_check() {
    let fixture = Fixture::new();
    for (name, prompt) in [
        ("gone", "rm -r \"$PWD\""),
        ("moved", "cd .. && mv work other && ln -s / work"),
        ("odd", "mkfifo answer; mkdir -p deep; ln -s deep loop; chmod 0 deep"),
    ] {
        let folder = add_answer_task(&fixture, name, prompt);
        fs::create_dir(folder.join("check_files")).unwrap();
        fs::write(folder.join("check_files/extra"), "").unwrap();
    }
    add_answer_task(&fixture, "z-next", "echo 42 > answer");
    let text = fs::read_to_string(fixture.project("tasks/odd/task.toml")).unwrap();
    let text = format!("{text}check_timeout_s = 1\n");
    fs::write(fixture.project("tasks/odd/task.toml"), text).unwrap();
    let ran = fixture.run(&["eval", "tasks", OBEDIENT, "-o", "json"]).await;
    let found: Vec<_> =
        outcomes(ran.exited(0)).into_iter().map(|(_, outcome, _)| outcome).collect();
    assert_eq!(found, ["false_done", "false_done", "check_timed_out", "solved"], "{}", ran.out);
}

#[tokio::test]
async fn every_agent_tries_every_task_once_per_seed() {
    let reply = ScriptedReply::new().text("I would rather not.");
    let (server, fixture) = with_script(Script::repeating(reply)).await;
    for name in ["a", "b"] {
        add_answer_task(&fixture, name, WRITE);
    }
    let args = ["eval", "tasks", "-m", MODEL, "-a", "BUILD-HITL", "-a", "PLAN", "--seed", "1"];
    let part = fixture.run(&[&args[..], &["--limit", "1"]].concat()).await;
    assert!(part.exited(0).out.contains("PLAN"), "{}", part.out);
    let whole = fixture.run(&[&args[..], &["--seed", "2", "-o", "json"]].concat()).await;
    whole.exited(0);
    let lines = whole.lines();
    let keys: Vec<_> = lines
        .iter()
        .filter(|line| line["type"] == "trial")
        .map(|line| format!("{} {} {}", line["seed"], line["task"], line["agent"]).replace('"', ""))
        .collect();
    let expected =
        ["1 b BUILD-HITL", "1 b PLAN", "2 a BUILD-HITL", "2 a PLAN", "2 b BUILD-HITL", "2 b PLAN"];
    assert_eq!(keys, expected);
    let rows = &summary(&whole)["rows"];
    assert_eq!((&rows[0]["trials"], &rows[1]["trials"]), (&json!(4), &json!(4)));
    server.finish().await.unwrap();
}

#[tokio::test]
async fn seed_and_temperature_reach_the_model() {
    let reply = ScriptedReply::new().text("I would rather not.");
    let server = ModelServer::start(Script::repeating(reply)).await;
    let fixture = Fixture::new().with_server(&server, WireDialect::Gemini);
    add_answer_task(&fixture, "a", WRITE);
    let args = ["eval", "tasks", "-m", "gemini/gemini-test", "--seed", "11"];
    fixture.run(&[&args[..], &["--temperature", "0.25"]].concat()).await.exited(0);
    let other = fixture.run(&args).await;
    assert!(other.exited(2).err.contains("another temperature: 0.25"), "{}", other.err);
    let requests = server.finish().await.unwrap();
    let body = &requests[0].body["generationConfig"];
    assert_eq!((&body["seed"], &body["temperature"]), (&json!(11), &json!(0.25)));
}

#[tokio::test]
async fn two_runs_are_compared_pair_by_pair() {
    let fixture = Fixture::new();
    for number in 1..=6 {
        add_answer_task(&fixture, &format!("t{number}"), "echo 42 > answer");
    }
    let lazy = "--program=true";
    for (program, out) in [(OBEDIENT, "good"), (lazy, "lazy")] {
        fixture.run(&["eval", "tasks", program, "--out", out, "--jobs", "2"]).await.exited(0);
    }
    let text = fixture.run(&["eval", "compare", "good", "lazy"]).await;
    let out = &text.exited(0).out;
    assert!(out.contains("p = 0.031; significant at 5 %"), "{out}");
    assert!(out.contains("only A: t1 (seed 1), t2 (seed 1)"), "{out}");
    let ran = fixture.run(&["eval", "compare", "lazy", "good", "-o", "json"]).await;
    let pair = &ran.exited(0).lines()[0]["pairs"][0];
    assert_eq!((&pair["pairs"], &pair["false_done_first"]), (&json!(6), &json!(6)));
    assert_eq!(pair["only_second"].as_array().unwrap().len(), 6);
    for (first, second, expected) in
        [("good", "tasks", "run.json"), ("nowhere", "good", "nowhere/run.json")]
    {
        let ran = fixture.run(&["eval", "compare", first, second]).await;
        assert!(ran.exited(1).err.contains(expected), "{}", ran.err);
    }
}

#[tokio::test]
async fn wrong_arguments_and_tasks_end_before_anything_is_run() {
    let fixture = Fixture::new();
    add_task(&fixture, "a", "prompt = \"x\"\nchekc = \"true\"\n");
    fs::create_dir(fixture.project("empty")).unwrap();
    for (args, expected) in [
        (&["eval"][..], "required"),
        (&["eval", "empty"], "has no tasks"),
        (&["eval", "nowhere"], "cannot read"),
        (&["eval", "tasks"], "tasks/a/task.toml:2:1: unknown key \"chekc\""),
        (&["eval", "tasks", "--tasks", "9-1"], "neither a number, a range"),
        (&["eval", "tasks", "--jobs", "0"], "--jobs"),
        (&["eval", "tasks", "--max-cost=-1"], "--max-cost"),
        (&["eval", "tasks", "--program", "x", "--agent", "y"], "cannot be used with"),
        (&["eval", "tasks", "--config", "nowhere"], "nowhere"),
    ] {
        let ran = fixture.run(args).await;
        assert!(ran.exited(2).err.contains(expected), "{args:?}: {}", ran.err);
    }
    assert!(!fixture.project("crow-eval").exists());
}

#[tokio::test]
async fn a_program_that_cannot_work_is_not_a_failure_of_the_agent() {
    let fixture = Fixture::new();
    add_answer_task(&fixture, "a", "Write 42.");
    let no_key = fixture.run(&["eval", "tasks", "-m", MODEL, "-o", "json"]).await;
    assert_eq!(
        outcomes(no_key.exited(1)),
        [("a".to_owned(), "program_failed".to_owned(), Some(3))]
    );
    let missing =
        fixture.run(&["eval", "tasks", "--program", "no-such-program", "--out", "b"]).await;
    assert!(
        missing.exited(1).out.contains("not counted, the program could not work: a"),
        "{}",
        missing.out
    );
}

#[tokio::test]
async fn exercises_and_json_lines_are_tasks() {
    let fixture = Fixture::new();
    let exercise = fixture.project("set/leap");
    for (path, text) in [
        (".meta/config.json", r#"{"files": {"solution": ["leap.py"], "test": ["leap_test.py"]}}"#),
        (".meta/example.py", "def leap_year(year):\n    return year % 4 == 0\n"),
        (".docs/instructions.md", "# Leap\n"),
        ("leap.py", "def leap_year(year):\n    pass\n"),
        (
            "leap_test.py",
            "import unittest\nfrom leap import leap_year\n\nclass LeapTest(unittest.TestCase):\n    def test_four(self):\n        self.assertTrue(leap_year(4))\n",
        ),
    ] {
        let path = exercise.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let problem = json!({
        "task_id": "Own/1",
        "prompt": "def double(x):\n    \"\"\"Returns twice x.\"\"\"\n",
        "entry_point": "double",
        "test": "def check(f):\n    assert f(2) == 4\n",
    });
    fs::write(fixture.project("set/own.jsonl"), format!("{problem}\n")).unwrap();
    let listed = fixture.run(&["eval", "list", "set", "-o", "json"]).await;
    let names: Vec<_> = listed.exited(0).lines().iter().map(|line| line["name"].clone()).collect();
    assert_eq!(names, ["leap", "Own/1"]);
    let solve = "--program=test -d .meta && exit 9; if [ -e leap.py ]; then echo 'def leap_year(y): return y % 4 == 0' > leap.py; else printf '    return 2 * x\\n' >> solution.py; fi; true";
    let cheat = "--program=for f in leap.py solution.py; do [ ! -e $f ] || echo 'import os; os._exit(0)' > $f; done; true";
    for (program, out, expected) in [(solve, "solved", "solved"), (cheat, "cheated", "false_done")]
    {
        let ran = fixture.run(&["eval", "set", program, "--out", out, "-o", "json"]).await;
        let found: Vec<_> =
            outcomes(ran.exited(0)).into_iter().map(|(_, outcome, _)| outcome).collect();
        let is_python_there = !found.iter().all(|outcome| outcome == "setup_failed");
        assert!(is_python_there);
        if expected == "solved" {
            assert_eq!(found, ["solved", "solved"], "{}", ran.out);
        } else {
            assert_eq!(found[0], "false_done", "{}", ran.out);
        }
    }
}

#[tokio::test]
async fn links_out_of_a_task_and_what_is_no_regular_file_are_refused() {
    let fixture = Fixture::new();
    let (keys, sparse) = (fixture.home(".ssh"), fixture.project("sparse"));
    fs::create_dir_all(keys.join("sub")).unwrap();
    for key in ["id_rsa", "sub/id_rsa"] {
        fs::write(keys.join(key), "the secret key").unwrap();
    }
    fs::File::create(&sparse).unwrap().set_len(2 << 30).unwrap();
    for (line, link, expected) in [
        ("prompt_file = 'keylink'", "keylink", "a link leads out of "),
        ("prompt_file = 'd/id_rsa'", "d", "a link leads out of "),
        ("prompt = 'x'", "files", "a link leads out of "),
        ("prompt = 'x'", "check_files", "a link leads out of "),
        ("prompt = 'x'\nfiles = 'd/sub'", "d", "a link leads out of "),
        ("prompt_file = 'pipe'", "pipe", "is not a regular file"),
        ("prompt_file = 'sparse'", "sparse", "it is larger than 1 MiB"),
    ] {
        let task = add_task(&fixture, "bad", &format!("{line}\ncheck = 'false'\n"));
        match link {
            "pipe" => NamedPipe::make(&task.join(link)),
            "sparse" => fs::rename(&sparse, task.join(link)).unwrap(),
            "keylink" => symlink(keys.join("id_rsa"), task.join(link)).unwrap(),
            _ => symlink(&keys, task.join(link)).unwrap(),
        }
        let ran = fixture.run(&["eval", "tasks", "--program=cat"]).await;
        let error = &ran.exited(2).err;
        assert!(error.contains(expected) && error.contains("bad/task.toml:"), "{line}: {error}");
        fs::remove_dir_all(task).unwrap();
    }
    assert!(!any_file_contains(&fixture.project("."), "the secret key"));
}

#[tokio::test]
async fn a_session_becomes_a_task_with_the_files_before_it() {
    let script = Script::new()
        .then(ScriptedReply::new().call("c1", "bash", &json!({"command": "printf new > changed; rm removed; printf 42 > answer; mkdir -p kept/more; touch kept/more/x"})))
        .then_respond(|_| ScriptedReply::new().text("I looked at it.").into());
    let (server, fixture) = with_script(script).await;
    for (path, text) in [
        ("changed", "old"),
        ("removed", "here"),
        ("kept/file", "same"),
        (".gitignore", "*.log\n"),
        ("a.log", ""),
    ] {
        let path = fixture.project(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    fixture
        .run(&["run", "Write 42 into the file answer.", "-m", MODEL, "-p", "full-auto"])
        .await
        .exited(0);
    server.finish().await.unwrap();
    let id = fixture.id();
    let made = fixture
        .run(&["eval", "new", &id, "tasks/one", "--check", "[ \"$(cat answer)\" = 42 ]"])
        .await;
    assert!(
        made.code == Some(1) && made.err.contains("tasks/one"),
        "the parent folder is missing: {made:?}"
    );
    fs::create_dir(fixture.project("tasks")).unwrap();
    let check = "[ \"$(cat answer)\" = 42 ]";
    let made = fixture.run(&["eval", "new", &id[..8], "tasks/one", "--check", check]).await;
    assert_eq!(made.exited(0).out, "tasks/one: a task with 4 files\n");
    let read = |path: &str| fs::read_to_string(fixture.project("tasks/one").join(path)).ok();
    assert_eq!(read("prompt.md").as_deref(), Some("Write 42 into the file answer."));
    let files = ["changed", "removed", "kept/file", "answer", "kept/more/x", "a.log"]
        .map(|path| read(&format!("files/{path}")));
    let expected = [Some("old"), Some("here"), Some("same"), None, None, None];
    assert_eq!(files, expected.map(|text| text.map(str::to_owned)));
    let again = fixture.run(&["eval", "new", &id, "tasks/one", "--check", check]).await;
    assert!(again.exited(2).err.contains("exists"), "{}", again.err);
    let program = "--program=printf 42 > answer; true";
    let ran = fixture.run(&["eval", "tasks", program, "-o", "json"]).await;
    assert_eq!(outcomes(ran.exited(0)), [("one".to_owned(), "solved".to_owned(), Some(0))]);
}

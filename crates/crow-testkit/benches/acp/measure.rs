//! The measurements.

use std::{
    fs,
    time::{Duration, Instant},
};

use crow_testkit::{
    Delivery, ModelServer, PrefixCheck, Script, ScriptStep, ScriptedReply, ServerChecks,
    ServerOptions,
};
use serde_json::{Value, json};

use crate::{
    editor::{AgentProgram, Editor, WORD},
    proc::Proc,
    table::TableRow,
};

/// How often short things are measured. The median counts.
const TIMES: usize = 15;
/// Words of the reply that is streamed.
const WORDS: usize = 50_000;
/// Words of the reply that nobody reads.
const MANY_WORDS: usize = 150_000;
/// Sessions of one process.
const SESSIONS: usize = 200;
/// Turns of the session that is loaded, each with a command and an answer.
const TURNS: usize = 400;
/// How long an editor does not read.
const STALL: Duration = Duration::from_secs(3);
/// What the model's command sleeps, in seconds; no other process does so.
const SLEEP: &str = "98764";

pub(crate) async fn all(crow: &AgentProgram, bare: &AgentProgram) -> Vec<TableRow> {
    let quiet = server(ScriptedReply::new().text("done")).await;
    let (ours, theirs) = (starts(crow, &quiet), starts(bare, &quiet));
    let mut rows = vec![
        pair("`initialize`, from the start of the process", "≤ 20 ms", ms(ours.0), ms(theirs.0)),
        pair("`session/new`, the first one of the process", "≤ 50 ms", ms(ours.1), ms(theirs.1)),
    ];
    rows.push(updates(crow, bare).await);
    rows.extend(cancels(crow, bare).await);
    rows.extend(stalled(crow).await);
    rows.push(sessions(crow, &quiet));
    rows.push(loads(crow).await);
    rows
}

fn pair(what: &'static str, bound: &'static str, ours: String, reference: String) -> TableRow {
    TableRow { what, bound, ours, reference }
}

/// Starts a model that always answers in the same way.
async fn server(reply: ScriptedReply) -> ModelServer {
    let checks = ServerChecks { prefix: PrefixCheck::Off, ..ServerChecks::default() };
    let options =
        ServerOptions { checks, delivery: Delivery::Together, ..ServerOptions::default() };
    ModelServer::start_with(Script::repeating(reply), options).await
}

fn begin(program: &AgentProgram, server: &ModelServer) -> (Editor, String) {
    let mut editor = program.start(server);
    editor.initialize();
    let (session, _) = editor.create();
    (editor, session)
}

/// How long `initialize` and the first `session/new` take.
fn starts(program: &AgentProgram, server: &ModelServer) -> (Duration, Duration) {
    let both = (0..TIMES).map(|_| {
        let mut editor = program.start(server);
        let introduced = editor.initialize();
        let (_, created) = editor.create();
        editor.end();
        (introduced, created)
    });
    let (introduced, created): (Vec<_>, Vec<_>) = both.unzip();
    (median(introduced), median(created))
}

async fn updates(crow: &AgentProgram, bare: &AgentProgram) -> TableRow {
    let model = server(ScriptedReply::new().text(WORD.repeat(WORDS))).await;
    let rate = |program: &AgentProgram, prompt: &str| {
        let (mut editor, session) = begin(program, &model);
        let id = editor.prompt(&session, prompt);
        let answered = editor.answer(id);
        editor.end();
        assert_eq!(answered.words, WORDS);
        let rate = WORDS as f64 / answered.streaming.as_secs_f64();
        format!("{rate:.0}/s in {} updates", answered.updates)
    };
    let bound = "≥ 10,000/s";
    let theirs = rate(bare, &WORDS.to_string());
    pair("pieces of one reply to an editor that reads", bound, rate(crow, "go"), theirs)
}

/// How long a cancel takes while a command runs, and until nothing of it is left.
async fn cancels(crow: &AgentProgram, bare: &AgentProgram) -> Vec<TableRow> {
    let command = json!({"command": format!("sleep {SLEEP} & sleep {SLEEP}"), "timeout": 600_000});
    let model = server(ScriptedReply::new().call("c", "bash", &command)).await;
    let times = |program: &AgentProgram| {
        let (mut acknowledged, mut gone) = (Vec::new(), Vec::new());
        for _ in 0..TIMES {
            let (mut editor, session) = begin(program, &model);
            let id = editor.prompt(&session, "run it");
            editor.shows("\"in_progress\"");
            std::thread::sleep(Duration::from_millis(50));
            let began = Instant::now();
            editor.cancel(&session);
            assert_eq!(editor.answer(id).result["stopReason"], "cancelled");
            acknowledged.push(began.elapsed());
            while sleepers() > 0 {
                assert!(began.elapsed() < Duration::from_secs(10), "a process is left");
                std::thread::yield_now();
            }
            gone.push(began.elapsed());
            editor.end();
        }
        let worst = acknowledged.iter().max().copied().unwrap();
        (format!("{} (worst {})", ms(median(acknowledged)), ms(worst)), ms(median(gone)))
    };
    let (ours, theirs) = (times(crow), times(bare));
    vec![
        pair("cancel acknowledged with a command running", "≤ 50 ms", ours.0, theirs.0),
        pair("cancel to the end of the command's last process", "≤ 2 s", ours.1, theirs.1),
    ]
}

/// What an editor costs that does not read: memory, and how long its cancel takes.
async fn stalled(crow: &AgentProgram) -> Vec<TableRow> {
    // The command keeps the turn open when all has been said.
    let command = json!({"command": format!("sleep {SLEEP}"), "timeout": 600_000});
    let reply = ScriptedReply::new().text(WORD.repeat(MANY_WORDS)).call("c", "bash", &command);
    let model = server(reply).await;
    let (mut editor, session) = begin(crow, &model);
    std::thread::sleep(Duration::from_millis(200));
    let process = Proc::new(editor.pid());
    let before = process.pss_mb();
    let id = editor.prompt(&session, "go");
    std::thread::sleep(STALL);
    let grown = process.pss_mb() - before;
    let began = Instant::now();
    editor.cancel(&session);
    let answered = editor.answer(id);
    let took = began.elapsed();
    assert_eq!(answered.result["stopReason"], "cancelled", "{} updates", answered.updates);
    editor.end();
    let nothing = || "–".to_owned();
    vec![
        pair("memory (PSS) that 3 s without reading cost", "bounded", mb(grown), nothing()),
        pair("cancel of that editor, which then reads", "≤ 50 ms", ms(took), nothing()),
    ]
}

fn sessions(crow: &AgentProgram, quiet: &ModelServer) -> TableRow {
    let mut editor = crow.start(quiet);
    editor.initialize();
    for _ in 0..SESSIONS {
        let (session, _) = editor.create();
        let id = editor.prompt(&session, "go");
        editor.answer(id);
    }
    std::thread::sleep(Duration::from_millis(200));
    let pss = Proc::new(editor.pid()).pss_mb();
    editor.end();
    pair("memory (PSS) with 200 open sessions, a turn each", "≤ 150 MB", mb(pss), "–".to_owned())
}

/// How long it takes until an editor has all of a long session, in a new process; beside it, to parse the lines of its log.
async fn loads(crow: &AgentProgram) -> TableRow {
    let command = json!({"command": "true"});
    let turn = |turn: usize| {
        let call = ScriptedReply::new().call(format!("call{turn}"), "bash", &command);
        [call.into(), ScriptedReply::new().text(WORD.repeat(20)).into()]
    };
    let script: Vec<ScriptStep> = (0..TURNS).flat_map(turn).collect();
    let options = ServerOptions { delivery: Delivery::Together, ..ServerOptions::default() };
    let model = ModelServer::start_with(script, options).await;
    let (mut editor, session) = begin(crow, &model);
    for _ in 0..TURNS {
        let id = editor.prompt(&session, "go");
        editor.answer(id);
    }
    let log = editor.log(&session);
    editor.end();
    let times = (0..TIMES).map(|_| {
        let mut editor = crow.start(&model);
        editor.initialize();
        let took = editor.load(&session);
        editor.end();
        took
    });
    let ours = median(times);
    let parsed = (0..TIMES).map(|_| {
        let began = Instant::now();
        let text = fs::read_to_string(&log).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        assert!(lines.count() > TURNS);
        began.elapsed()
    });
    let parsed = format!("{} (parsing its log)", ms(median(parsed)));
    pair("`session/load` of 400 turns, in a new process", "≤ 320 ms", ms(ours), parsed)
}

/// How many processes of the model's command there are.
fn sleepers() -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let own = format!("sleep\0{SLEEP}\0");
    lines.filter(|line| line == own.as_bytes()).count()
}

fn median(times: impl IntoIterator<Item = Duration>) -> Duration {
    let mut times: Vec<_> = times.into_iter().collect();
    times.sort();
    times[times.len() / 2]
}

fn ms(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

fn mb(size: f64) -> String {
    format!("{size:.1} MB")
}

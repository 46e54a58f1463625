//! The measurements.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crow_testkit::{
    Delivery, Fault, ModelServer, PrefixCheck, ScriptStep, ScriptedReply, ServerChecks,
    ServerOptions, StreamGate,
};
use serde_json::json;

use crate::{client::BenchClient, proc::Proc, process_tree, table::TableRow};

/// How often short things are measured. The median counts.
const TIMES: usize = 15;
/// Steps of the run whose gaps are measured.
const STEPS: usize = 300;
/// How often that run is measured, each time beside the bare loop.
const PAIRS: usize = 3;
/// Files of the project in which every step is captured before and after.
const FILES: usize = 1000;
/// Steps of the run whose memory is measured. With another number in `CROW_BENCH_STEPS` nothing else is measured.
const MANY_STEPS: usize = 1000;
/// Deltas of the long reply.
const DELTAS: usize = 20_000;
/// How often the long reply is measured.
const STREAMS: usize = 5;
/// Files of agents.
const AGENTS: usize = 200;
/// Skills of the user.
const SKILLS: usize = 200;
/// Window of the model that the runs use, in bytes at 4 bytes a token.
const WINDOW: usize = 200_000 * 4;
/// Steps of the run with a hook.
const HOOK_STEPS: usize = 100;
/// Sessions in the list.
const SESSIONS: usize = 10_000;

pub(crate) async fn all(
    crow: &BenchClient,
    bare: &BenchClient,
    confined: &BenchClient,
) -> Vec<TableRow> {
    if std::env::var_os("CROW_BENCH_HOOKS").is_some() {
        let [start, body] = skills(crow).await;
        return vec![hook(crow).await, start, body];
    }
    if let Ok(many) = std::env::var("CROW_BENCH_STEPS") {
        return vec![memory(crow, bare, many.parse().unwrap()).await];
    }
    let mut rows = Vec::new();
    rows.push(TableRow {
        what: "first request on the wire after start, warm home",
        bound: "≤ 15 ms",
        ours: ms(first_request(crow).await),
        reference: ms(first_request(bare).await),
    });
    let (ours, theirs) = step_pairs(crow, bare).await;
    rows.push(pair(
        "gap per step incl. `bash -c true`, median of 300",
        "≤ 2× the bare loop",
        times(ours.gap, theirs.gap),
        ms(theirs.gap),
    ));
    let drift = |steps: &Steps| format!("{} → {}", ms(steps.first_gap), ms(steps.last_gap));
    rows.push(pair("the same, steps 1–50 → steps 251–300", "flat", drift(&ours), drift(&theirs)));
    crow.fill_project(FILES);
    let filled = steps(crow, STEPS).await;
    rows.push(pair(
        "gap per step in a project of 1,000 files",
        "≤ 6 ms",
        ms(filled.gap),
        ms(theirs.gap),
    ));
    rows.push(pair("CPU per step, own process", "≤ 2 ms", ms(ours.cpu), ms(theirs.cpu)));
    rows.push(pair(
        "CPU per step with all processes that it starts",
        "≤ 2× the bare loop",
        times(ours.tree_cpu, theirs.tree_cpu),
        ms(theirs.tree_cpu),
    ));
    if Path::new("/usr/bin/bwrap").exists() {
        confined.fill_project(FILES);
        let theirs = steps(confined, STEPS / 3).await;
        rows.push(pair(
            "gap in 1,000 files; beside the bare loop with bwrap and git",
            "≤ 2× that loop",
            times(filled.gap, theirs.gap),
            ms(theirs.gap),
        ));
        rows.push(pair(
            "CPU of all processes there",
            "≤ 2× that loop",
            times(filled.tree_cpu, theirs.tree_cpu),
            ms(theirs.tree_cpu),
        ));
    }
    rows.push(pair(
        "connections for 300 requests",
        "1",
        ours.connections.to_string(),
        theirs.connections.to_string(),
    ));
    rows.push(pair(
        "first request (prompt and tools)",
        "≤ 11 kB",
        kb(ours.first_body),
        kb(theirs.first_body),
    ));
    rows.push(pair(
        "memory (PSS) while waiting for the model",
        "≤ 20 MB",
        mb(waiting(crow).await),
        mb(waiting(bare).await),
    ));
    rows.push(memory(crow, bare, MANY_STEPS).await);
    rows.extend(streams(crow, bare).await);
    rows.push(hook(crow).await);
    rows.extend(skills(crow).await);
    crow.add_agents(AGENTS);
    rows.push(alone(
        "first request after start with 200 agent files more",
        "≤ 30 ms",
        ms(first_request(crow).await),
    ));
    let size = fs::metadata(crow.program()).unwrap().len();
    rows.push(alone("release binary, stripped", "≤ 35 MB", format!("{:.1} MB", size as f64 / 1e6)));
    rows.push(alone("`--help`", "≤ 10 ms", ms(median((0..TIMES).map(|_| crow.time(&["--help"]))))));
    make_sessions(crow);
    rows.push(alone(
        "`sessions list` of 10,000 sessions",
        "≤ 100 ms",
        ms(median((0..5).map(|_| crow.time(&["sessions", "list"])))),
    ));
    rows
}

/// Measures a hook before each call, beside the same runs without it and the bare process that it starts. The runs alternate.
async fn hook(crow: &BenchClient) -> TableRow {
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        without.push(steps(crow, HOOK_STEPS).await.gap);
        crow.add_hook();
        with.push(steps(crow, HOOK_STEPS).await.gap);
        crow.remove_hook();
    }
    let bare = median((0..HOOK_STEPS).map(|_| {
        let begun = Instant::now();
        let mut shell = Command::new("sh");
        shell.args(["-c", "true"]).stdin(Stdio::null()).stdout(Stdio::null());
        shell.status().unwrap();
        begun.elapsed()
    }));
    let hook = median(with).saturating_sub(median(without));
    pair(
        "a hook before a call, in the sandbox; beside `sh -c true` alone",
        "≤ 3 ms above it",
        ms(hook),
        ms(bare),
    )
}

/// Measures the start, and the length of the first request, with skills and without.
async fn skills(crow: &BenchClient) -> [TableRow; 2] {
    let (start_without, body_without) = (first_request(crow).await, first_body(crow).await);
    crow.add_skills(SKILLS);
    let (start, body) = (first_request(crow).await, first_body(crow).await);
    crow.remove_skills();
    let start = pair(
        "first request after start with 200 skills; without",
        "≤ 3 ms more",
        ms(start),
        ms(start_without),
    );
    let share = (body - body_without) as f64 / WINDOW as f64 * 100.0;
    let body = pair(
        "first request with 200 skills, their share of a window of 200k tokens; without",
        "≤ 2 %",
        format!("{}, {share:.2} %", kb(body)),
        kb(body_without),
    );
    [start, body]
}

async fn first_body(client: &BenchClient) -> usize {
    let script = [ScriptedReply::new().text("done")];
    let server = ModelServer::start_with(script, options(Delivery::Together)).await;
    client.start(&server).child.wait().unwrap();
    server.finish().await.unwrap()[0].raw_body.len()
}

/// Measures the memory after many steps, with `CROW_BENCH_STEPS` after so many.
async fn memory(crow: &BenchClient, bare: &BenchClient, many: usize) -> TableRow {
    let (ours, theirs) = (steps(crow, many).await, steps(bare, many).await);
    pair(
        "memory (PSS) after 1,000 steps, or `CROW_BENCH_STEPS`",
        "≤ 50 MB",
        mb(ours.pss),
        mb(theirs.pss),
    )
}

/// Measures replies that come in many small parts.
async fn streams(crow: &BenchClient, bare: &BenchClient) -> [TableRow; 2] {
    let cpu = pair(
        "CPU for 20,000 text deltas",
        "≤ 0.10 s",
        seconds(deltas(crow).await),
        seconds(deltas(bare).await),
    );
    let (ours, theirs) = (fast_stream(crow).await, fast_stream(bare).await);
    let wall = pair(
        "wall time of a run with 20,000 text deltas at once",
        "≤ 1.5× the bare loop",
        format!("{} ({:.2}×)", seconds(ours), ours.as_secs_f64() / theirs.as_secs_f64()),
        seconds(theirs),
    );
    [cpu, wall]
}

fn pair(what: &'static str, bound: &'static str, ours: String, reference: String) -> TableRow {
    TableRow { what, bound, ours, reference }
}

fn alone(what: &'static str, bound: &'static str, ours: String) -> TableRow {
    TableRow { what, bound, ours, reference: "–".to_owned() }
}

fn options(delivery: Delivery) -> ServerOptions {
    let checks = ServerChecks { prefix: PrefixCheck::Off, ..ServerChecks::default() };
    ServerOptions { checks, delivery, ..ServerOptions::default() }
}

/// A reply that begins, then waits.
fn held(gate: &StreamGate) -> ScriptStep {
    ScriptedReply::new().text("done").with(Fault::StallAfter { events: 1, gate: gate.clone() })
}

async fn first_request(client: &BenchClient) -> Duration {
    let mut times = Vec::new();
    for _ in 0..TIMES {
        let server = ModelServer::start_with(
            [ScriptedReply::new().text("done")],
            options(Delivery::Together),
        )
        .await;
        let mut started = client.start(&server);
        let request = server.wait_for_request(0).await;
        times.push(request.first_byte_at - started.at);
        started.child.wait().unwrap();
        server.finish().await.unwrap();
    }
    median(times)
}

async fn waiting(client: &BenchClient) -> f64 {
    let gate = StreamGate::new();
    let server = ModelServer::start_with([held(&gate)], options(Delivery::Each)).await;
    let mut started = client.start(&server);
    gate.wait_for_arrival(1).await;
    settle().await;
    let pss = Proc::new(started.child.id()).pss_mb();
    gate.open();
    started.child.wait().unwrap();
    server.finish().await.unwrap();
    pss
}

struct Steps {
    gap: Duration,
    first_gap: Duration,
    last_gap: Duration,
    cpu: Duration,
    tree_cpu: Duration,
    pss: f64,
    connections: usize,
    first_body: usize,
}

/// Measures both programs in turn, and returns the pair of runs whose gaps have the median ratio.
async fn step_pairs(crow: &BenchClient, bare: &BenchClient) -> (Steps, Steps) {
    let mut pairs = Vec::new();
    for _ in 0..PAIRS {
        pairs.push((steps(crow, STEPS).await, steps(bare, STEPS).await));
    }
    pairs.sort_by(|(a, b), (c, d)| {
        (a.gap.as_secs_f64() / b.gap.as_secs_f64())
            .total_cmp(&(c.gap.as_secs_f64() / d.gap.as_secs_f64()))
    });
    pairs.swap_remove(PAIRS / 2)
}

async fn steps(client: &BenchClient, count: usize) -> Steps {
    let gate = StreamGate::new();
    let call = |n: usize| {
        ScriptStep::from(ScriptedReply::new().call(
            format!("toolu_{n}"),
            "bash",
            &json!({"command": format!("true # {n}")}),
        ))
    };
    let script: Vec<ScriptStep> = (0..count).map(call).chain([held(&gate)]).collect();
    let server = ModelServer::start_with(script, options(Delivery::Together)).await;
    let mut started = client.start(&server);
    gate.wait_for_arrival(1).await;
    settle().await;
    let process = Proc::new(started.child.id());
    let (cpu, tree_cpu, pss) =
        (process.cpu(), process_tree::cpu(started.child.id()), process.pss_mb());
    gate.open();
    started.child.wait().unwrap();
    let ends: Vec<_> =
        (0..count).map(|index| server.answer(index).unwrap().ended_at.unwrap()).collect();
    let connections = server.connections();
    let requests = server.finish().await.unwrap();
    let gaps: Vec<_> = ends
        .iter()
        .zip(&requests[1..])
        .map(|(end, next)| next.first_byte_at.saturating_duration_since(*end))
        .collect();
    Steps {
        gap: median(gaps.clone()),
        first_gap: median(gaps[..50].to_vec()),
        last_gap: median(gaps[gaps.len() - 50..].to_vec()),
        cpu: cpu / u32::try_from(count).unwrap(),
        tree_cpu: tree_cpu / u32::try_from(count).unwrap(),
        pss,
        connections,
        first_body: requests[0].raw_body.len(),
    }
}

async fn deltas(client: &BenchClient) -> Duration {
    let text = "word ".repeat(DELTAS);
    let gate = StreamGate::new();
    let reply = ScriptedReply::new()
        .text(&text)
        .with(Fault::StallAfter { events: DELTAS + 2, gate: gate.clone() });
    let server = ModelServer::start_with([reply], options(Delivery::Each)).await;
    let mut started = client.start(&server);
    gate.wait_for_arrival(1).await;
    settle().await;
    let cpu = Proc::new(started.child.id()).cpu();
    gate.open();
    started.child.wait().unwrap();
    server.finish().await.unwrap();
    cpu
}

/// The time from the first byte of the request to the end of the program, which reads as fast as it can.
async fn fast_stream(client: &BenchClient) -> Duration {
    let text = "word ".repeat(DELTAS);
    let mut times = Vec::new();
    for _ in 0..STREAMS {
        let reply = ScriptedReply::new().text(&text);
        let server = ModelServer::start_with([reply], options(Delivery::Each)).await;
        let mut started = client.start(&server);
        let begun = server.wait_for_request(0).await.first_byte_at;
        tokio::task::spawn_blocking(move || started.child.wait().unwrap()).await.unwrap();
        times.push(begun.elapsed());
        server.finish().await.unwrap();
    }
    median(times)
}

/// Makes sessions by copying the headers of one that a run left behind.
fn make_sessions(crow: &BenchClient) {
    let folder = crow.home().join(".local/share/crow-agent/sessions");
    let first = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    let header = fs::read_to_string(first.join("metadata.json")).unwrap();
    let own = first.file_name().unwrap().to_str().unwrap().to_owned();
    for n in fs::read_dir(&folder).unwrap().count()..SESSIONS {
        let id = format!("made-{n:05}");
        fs::create_dir(folder.join(&id)).unwrap();
        fs::write(folder.join(&id).join("metadata.json"), header.replace(&own, &id)).unwrap();
    }
}

/// Gives a process that has nothing more to do the time to do it.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(150)).await;
}

fn median(times: impl IntoIterator<Item = Duration>) -> Duration {
    let mut times: Vec<_> = times.into_iter().collect();
    times.sort();
    times[times.len() / 2]
}

fn ms(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

/// A time, and how many times the reference it is.
fn times(ours: Duration, reference: Duration) -> String {
    format!("{} ({:.2}×)", ms(ours), ours.as_secs_f64() / reference.as_secs_f64())
}

fn seconds(time: Duration) -> String {
    format!("{:.3} s", time.as_secs_f64())
}

fn mb(size: f64) -> String {
    format!("{size:.1} MB")
}

fn kb(size: usize) -> String {
    format!("{:.1} kB", size as f64 / 1e3)
}

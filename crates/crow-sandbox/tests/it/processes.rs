//! Runs real processes without a sandbox.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use crow_core::{
    capability::{
        OutputFile, OutputLimits, ProcessEnd, ProcessError, ProcessOutcome, ProcessSpec,
        Processes as _,
    },
    tool::Progress,
};
use crow_sandbox::ProcessRunner;
use tokio_util::sync::CancellationToken;

use crow_testkit::processes::{has_ended_within_5s, is_running};

fn spec(script: &str) -> ProcessSpec {
    ProcessSpec {
        argv: ["bash", "-c", script].map(str::to_owned).to_vec(),
        cwd: "/".into(),
        env: BTreeMap::new(),
        timeout: Duration::from_mins(1),
        output: OutputLimits { head: 1024, tail: 1024, spill: None, spill_cap: 0 },
        progress: Progress::default(),
        only_reads: false,
    }
}

fn runner() -> ProcessRunner {
    let path = ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned());
    ProcessRunner::new(BTreeMap::from([path]))
}

async fn run(spec: ProcessSpec) -> ProcessOutcome {
    runner().run(spec, CancellationToken::new()).await.unwrap()
}

fn printed(outcome: &ProcessOutcome) -> String {
    String::from_utf8(outcome.output.head.clone()).unwrap()
}

#[tokio::test]
async fn output_and_errors_come_in_the_order_in_which_they_were_printed() {
    let outcome = run(spec("echo a; echo b >&2; echo c; exit 3")).await;
    assert_eq!(printed(&outcome), "a\nb\nc\n");
    assert_eq!((outcome.end, outcome.left_running), (ProcessEnd::Exited(3), false));
}

#[tokio::test]
async fn a_process_sees_only_the_environment_that_it_was_given() {
    let mut spec = spec("env | sort | grep -v -e ^_= -e ^CROW_CALL= -e ^SHLVL= -e ^PWD=");
    spec.env.insert("EXTRA".into(), "1".into());
    assert_eq!(printed(&run(spec).await), "EXTRA=1\nPATH=/usr/local/bin:/usr/bin:/bin\n");
}

#[tokio::test]
async fn standard_input_is_empty() {
    assert_eq!(printed(&run(spec("cat; echo end")).await), "end\n");
}

#[tokio::test]
async fn a_process_that_was_killed_reports_its_signal() {
    assert_eq!(run(spec("kill -9 $$")).await.end, ProcessEnd::Signaled(9));
}

#[tokio::test]
async fn a_process_that_ignores_sigterm_is_killed_soon_after_its_timeout() {
    let begun = Instant::now();
    let outcome = run(ProcessSpec {
        timeout: Duration::from_millis(200),
        ..spec("trap '' TERM; echo $$; while :; do sleep 1; done")
    })
    .await;
    assert_eq!(outcome.end, ProcessEnd::TimedOut);
    assert!(begun.elapsed() < Duration::from_secs(4));
    assert!(has_ended_within_5s(&printed(&outcome)).await);
}

#[tokio::test]
async fn a_background_child_does_not_delay_the_call_and_is_ended_with_it() {
    let begun = Instant::now();
    let outcome = run(spec("sleep 60 & echo $!")).await;
    assert!(begun.elapsed() < Duration::from_secs(2));
    assert_eq!((outcome.end, outcome.left_running), (ProcessEnd::Exited(0), true));
    assert!(has_ended_within_5s(&printed(&outcome)).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_whose_child_prints_without_end_ends_with_its_shell() {
    let begun = Instant::now();
    let outcome = run(spec("yes & exit 0")).await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{outcome:?}");
}

#[tokio::test]
async fn a_quick_command_ends_without_a_grace_period() {
    let mut times = Vec::new();
    for _ in 0..6 {
        times.push(run(spec("true")).await.duration);
    }
    assert!(times.iter().min().unwrap() < &Duration::from_millis(100), "{times:?}");
}

#[tokio::test]
async fn every_byte_of_live_output_arrives_in_order() {
    for script in [
        "echo first; sleep 0.15; for i in $(seq 50); do echo \"line $i\"; done",
        "printf 'no end of line'",
        "seq 20000",
        "printf '\\303'; sleep 0.15; printf '\\251\\n'",
    ] {
        let seen = Arc::new(Mutex::new(String::new()));
        let sink = Arc::clone(&seen);
        let mut spec = spec(script);
        spec.output.head = 1 << 20;
        spec.progress = Progress::new(move |output| sink.lock().unwrap().push_str(&output));
        let outcome = run(spec).await;
        assert!(*seen.lock().unwrap() == printed(&outcome), "{script}");
        assert!(!printed(&outcome).is_empty(), "{script}");
    }
}

#[tokio::test]
async fn a_cancelled_process_is_ended_with_its_whole_group() {
    let token = CancellationToken::new();
    let seen = Arc::new(Mutex::new(String::new()));
    let (sink, cancel) = (Arc::clone(&seen), token.clone());
    let mut spec = spec("sleep 60 & echo $!; sleep 0.2; echo x; sleep 60");
    spec.progress = Progress::new(move |output| {
        sink.lock().unwrap().push_str(&output);
        cancel.cancel();
    });
    let outcome = runner().run(spec, token).await.unwrap();
    assert_eq!(outcome.end, ProcessEnd::Cancelled);
    let pid = printed(&outcome).lines().next().unwrap().to_owned();
    assert!(has_ended_within_5s(&pid).await);
}

#[tokio::test]
async fn dropping_a_call_kills_its_process() {
    let seen = Arc::new(Mutex::new(String::new()));
    let (sent, received) = tokio::sync::oneshot::channel();
    let (sink, sent) = (Arc::clone(&seen), Mutex::new(Some(sent)));
    let mut spec = spec("echo $$; sleep 0.2; echo x; sleep 60");
    spec.progress = Progress::new(move |output| {
        sink.lock().unwrap().push_str(&output);
        if let Some(sent) = sent.lock().unwrap().take() {
            sent.send(()).unwrap();
        }
    });
    let runner = runner();
    let running = runner.run(spec, CancellationToken::new());
    tokio::select! {
        outcome = running => panic!("it ended: {outcome:?}"),
        signal = received => signal.unwrap(),
    }
    let script = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let command = std::fs::read(entry.path().join("cmdline")).ok()?;
        let name = entry.file_name().into_string().ok()?;
        (command.ends_with(b"echo $$; sleep 0.2; echo x; sleep 60\0") && is_running(&name))
            .then_some(name)
    });
    for pid in script.collect::<Vec<_>>() {
        assert!(has_ended_within_5s(&pid).await, "{pid} is still there");
    }
}

#[tokio::test]
async fn a_huge_output_stays_bounded_in_memory_and_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let spill = folder.path().join("all.log");
    let mut spec = spec("head -c 30000000 /dev/zero | tr '\\0' x; echo end");
    spec.output =
        OutputLimits { head: 1000, tail: 2000, spill: Some(spill.clone()), spill_cap: 1_000_000 };
    let outcome = run(spec).await;
    assert_eq!((outcome.output.head.len(), outcome.output.tail.len()), (1000, 2000));
    assert_eq!(outcome.output.total, 30_000_004);
    assert!(outcome.output.tail.ends_with(b"xend\n"));
    assert_eq!(std::fs::metadata(&spill).unwrap().len(), 1_000_000);
    let file = OutputFile { path: spill, bytes: 1_000_000, missing: 29_000_004 };
    assert_eq!(outcome.output.spill, Some(file));
}

#[tokio::test]
async fn a_start_error_names_the_missing_program() {
    let spec = ProcessSpec { argv: vec!["no-such-program".into()], ..spec("") };
    let error = runner().run(spec, CancellationToken::new()).await.unwrap_err();
    assert!(
        matches!(&error, ProcessError::Start { program, .. } if program == "no-such-program"),
        "{error}"
    );
}

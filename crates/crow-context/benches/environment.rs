//! Measures typed access to an environment beside access by JSON pointer, and the texts that are made of it.
//!
//! `cargo bench -p crow-context --bench environment` prints nanoseconds per operation, the median of several rounds.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark reads the clock, prints, and fails loudly"
)]

use std::{hint::black_box, time::Instant};

use crow_context::environment::{DeltaOptions, Environment, FileInfo, SystemState, TaskState};
use crow_core::context::TokenEstimator;

const ROUNDS: usize = 21;
const PER_ROUND: u32 = 2_000;

fn main() {
    let counter = TokenEstimator::new("", &[]);
    let mut environment = Environment::builder()
        .system(SystemState { working_directory: "/project".into(), ..SystemState::default() })
        .task(TaskState { objective: "Fix the parser".to_owned(), ..TaskState::default() })
        .build();
    for number in 0..200 {
        let file = FileInfo { last_read: number + 1, lines: Some((1, 80)), ..FileInfo::default() };
        environment.workspace_mut().files.insert(format!("src/module_{number}.rs"), file);
    }
    let typed_read = median(|| {
        black_box(black_box(&environment).task().steps_completed);
    });
    let pointer_read = median(|| {
        black_box(black_box(&environment).get::<u32>("/task/steps_completed").unwrap());
    });
    let typed_file = median(|| {
        black_box(black_box(&environment).workspace().files["src/module_7.rs"].last_read);
    });
    let pointer_file = median(|| {
        let pointer = "/workspace/files/src~1module_7.rs/last_read";
        black_box(black_box(&environment).get::<u64>(pointer).unwrap());
    });
    let typed_write = median(|| black_box(&mut environment).task_mut().steps_completed += 1);
    let pointer_write = median(|| {
        black_box(&mut environment).set("/task/steps_completed", 7).unwrap();
    });
    for (name, typed, pointer) in [
        ("read a number", typed_read, pointer_read),
        ("read of one of 200 files", typed_file, pointer_file),
        ("write a number", typed_write, pointer_write),
    ] {
        println!(
            "{name}: typed {typed:.0} ns, by pointer {pointer:.0} ns, {:.0} times",
            pointer / typed
        );
        assert!(pointer >= 5.0 * typed, "typed access is not five times as fast");
    }
    let told = environment.revision();
    let snapshot = median(|| drop(black_box(environment.to_context(2_000, &counter))));
    let delta = median(|| {
        black_box(environment.delta_since(&told, &DeltaOptions::default(), &counter));
    });
    println!(
        "snapshot with 200 files: {snapshot:.0} ns; comparison without a change: {delta:.0} ns"
    );
}

/// Returns the nanoseconds of one call, the median of the rounds.
fn median(mut operation: impl FnMut()) -> f64 {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..PER_ROUND {
                operation();
            }
            start.elapsed().as_secs_f64() * 1e9 / f64::from(PER_ROUND)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2].max(0.1)
}

//! Detection of concurrent activities.

use std::{fs, sync::Barrier, thread};

use proptest::prelude::*;

use super::project::Project;

#[test]
fn a_single_activity_overlaps_with_nothing() {
    let project = Project::new();
    for _ in 0..3 {
        let alone = project.store.activities().begin().unwrap();
        assert!(!alone.overlapped());
    }
    assert_eq!(project.stored("activities").len(), 1);
}

#[test]
fn an_activity_overlaps_with_every_other_that_ran_since_its_start() {
    let project = Project::new();
    let other = project.other();
    let first = project.store.activities().begin().unwrap();
    assert!(!first.overlapped());
    let short = other.activities().begin().unwrap();
    assert!(short.overlapped(), "the first was there before");
    drop(short);
    assert!(first.overlapped(), "the short one came and went");
    drop(first);
    assert!(!other.activities().begin().unwrap().overlapped(), "all others have ended");
}

#[test]
fn activities_of_a_killed_process_have_ended() {
    let project = Project::new();
    let killed = project.store.activities().begin().unwrap();
    let also_killed = project.store.activities().begin().unwrap();
    // Their files remain, without the locks, which the kernel released.
    drop((killed, also_killed));
    assert_eq!(project.stored("activities").len(), 2);
    let alone = project.other().activities().begin().unwrap();
    assert!(!alone.overlapped());
    assert_eq!(project.stored("activities").len(), 2);
}

#[test]
fn an_unreadable_start_counter_counts_as_overlap() {
    let project = Project::new();
    let alone = project.store.activities().begin().unwrap();
    assert!(!alone.overlapped());
    fs::write(project.data.join("begun"), "").unwrap();
    assert!(alone.overlapped());
}

#[test]
fn threads_that_begin_at_once_each_see_an_overlap() {
    let project = Project::new();
    let other = project.other();
    let together = Barrier::new(8);
    thread::scope(|scope| {
        for number in 0..8 {
            let store = if number % 2 == 0 { &project.store } else { &other };
            let together = &together;
            scope.spawn(move || {
                for _ in 0..20 {
                    together.wait();
                    let own = store.activities().begin().unwrap();
                    together.wait();
                    assert!(own.overlapped());
                    together.wait();
                    drop(own);
                    together.wait();
                }
            });
        }
    });
    assert!(!project.store.activities().begin().unwrap().overlapped());
    assert_eq!(project.stored("activities").len(), 8, "no more than there were at once");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn two_overlap_if_one_began_before_the_other_ended(steps in prop::collection::vec(0..4_usize, 1..30)) {
        let project = Project::new();
        let mut running = [const { None }; 4];
        for slot in steps {
            if running[slot].take().is_none() {
                let others = running.iter_mut().flatten();
                let has_others = others.map(|(_, overlapped)| *overlapped = true).count() > 0;
                running[slot] = Some((project.store.activities().begin().unwrap(), has_others));
            }
            for (activity, overlapped) in running.iter().flatten() {
                prop_assert_eq!(activity.overlapped(), *overlapped);
            }
        }
    }
}

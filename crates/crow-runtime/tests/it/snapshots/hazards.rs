//! What else happens to files.

use std::path::PathBuf;

use crow_runtime::WhyNotCovered;

use super::project::{Project, session};

#[test]
fn threads_and_stores_scan_at_once() {
    let project = Project::new();
    for number in 0..200 {
        project.write(&format!("{}/{number}", number % 7), number.to_string());
    }
    let other = project.other();
    let ids: Vec<_> = std::thread::scope(|scope| {
        let scans: Vec<_> = (0..8)
            .map(|number| {
                let store = if number % 2 == 0 { &project.store } else { &other };
                scope.spawn(move || store.scan(&session(&number.to_string())).unwrap().snapshot)
            })
            .collect();
        scans.into_iter().map(|scan| scan.join().unwrap()).collect()
    });
    assert!(ids.iter().all(|id| *id == ids[0]));
    assert_eq!(project.store.check().unwrap().damaged, []);
    assert_eq!(project.store.sessions().unwrap().len(), 8);
}

#[test]
fn a_pipe_in_the_project_holds_nothing_up() {
    let project = Project::new();
    project.write("a", "1");
    let without = project.scan();
    let listener = std::os::unix::net::UnixListener::bind(project.root.join("socket")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        project.root.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    assert_eq!(project.scan().snapshot, without.snapshot);
    let captured = project.store.capture(&session("s"), &[PathBuf::from("pipe")]).unwrap();
    assert_eq!(captured.not_covered[0].why, WhyNotCovered::Special);
    drop(listener);
}

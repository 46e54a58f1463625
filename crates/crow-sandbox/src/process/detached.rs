//! Programs of the user that outlive this one, such as a browser.

use std::{
    collections::BTreeMap,
    io,
    os::unix::process::CommandExt as _,
    process::{Command, ExitStatus, Stdio},
    thread,
    time::Duration,
};

use tokio::{sync::oneshot, time::timeout};

/// Starts a program in a process group of its own, without input and output. It is neither sandboxed nor ended, and may
/// run on after this process. Returns its exit status if it ends within `limit`.
///
/// # Errors
/// Fails if the program cannot be started.
pub async fn start_detached(
    argv: &[String],
    env: &BTreeMap<String, String>,
    limit: Duration,
) -> io::Result<Option<ExitStatus>> {
    let (program, rest) = argv.split_first().ok_or(io::ErrorKind::NotFound)?;
    #[expect(clippy::disallowed_methods, reason = "a program that is not to end with this one")]
    let mut command = Command::new(program);
    command.args(rest).env_clear().envs(env).current_dir("/").process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let (sender, ended) = oneshot::channel();
    // A thread of its own, since nothing waits for the program: it may run longer than this process. It reaps the child.
    thread::spawn(move || {
        if let Ok(status) = child.wait() {
            // The receiver is gone after the limit.
            let _is_waiting = sender.send(status).is_ok();
        }
    });
    Ok(timeout(limit, ended).await.ok().and_then(Result::ok))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn run(script: &str, limit: Duration) -> Option<i32> {
        let argv = ["sh", "-c", script].map(str::to_owned);
        let env = BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]);
        let status = start_detached(&argv, &env, limit).await.unwrap();
        status.and_then(|status| status.code())
    }

    #[tokio::test]
    async fn the_status_of_a_short_program_is_returned_and_a_long_one_is_not_awaited() {
        let long = Duration::from_secs(30);
        assert_eq!(run("exit 0", long).await, Some(0));
        assert_eq!(run("exit 3", long).await, Some(3));
        let folder = tempfile::tempdir().unwrap();
        let (started, done) = (folder.path().join("started"), folder.path().join("done"));
        let script = format!(
            "touch {}; while [ ! -e {} ]; do sleep 0.05; done",
            started.display(),
            done.display()
        );
        assert_eq!(run(&script, Duration::from_millis(300)).await, None);
        // It still runs, and ends by itself.
        std::fs::write(&done, "").unwrap();
        assert!(start_detached(&[], &BTreeMap::new(), long).await.is_err());
    }
}

//! Synchronization of a test and a command through a named pipe, without polling.

use std::path::Path;

use rustix::fs::{CWD, Mode, mkfifoat};
use tokio::net::unix::pipe::{OpenOptions, Receiver, Sender};

/// Read and write end of a named pipe. While it exists, a command that opens the pipe does not block, and no signal is
/// lost. A shell waits with `read line < PATH`, and signals with `echo > PATH`.
#[derive(Debug)]
pub struct NamedPipe {
    sender: Sender,
    receiver: Receiver,
}

impl NamedPipe {
    /// Opens the pipe at `path`, creating it if needed. Must be called within a tokio runtime.
    pub fn at(path: &Path) -> Self {
        Self::make(path);
        let mut options = OpenOptions::new();
        options.read_write(true);
        let sender = options.open_sender(path).expect("a named pipe can be opened");
        let receiver = options.open_receiver(path).expect("a named pipe can be opened");
        Self { sender, receiver }
    }

    /// Creates a pipe unless the path exists.
    pub fn make(path: &Path) {
        if !path.exists() {
            mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).expect("a named pipe can be made");
        }
    }

    /// Signals one waiting reader.
    pub async fn signal(&self) {
        loop {
            self.sender.writable().await.expect("a named pipe can be waited for");
            match self.sender.try_write(b"\n") {
                Ok(_) => return,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => panic!("a named pipe cannot be written: {error}"),
            }
        }
    }

    /// Waits for a signal.
    pub async fn wait_for_signal(&self) {
        loop {
            self.receiver.readable().await.expect("a named pipe can be waited for");
            match self.receiver.try_read(&mut [0]) {
                Ok(_) => return,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => panic!("a named pipe cannot be read: {error}"),
            }
        }
    }
}

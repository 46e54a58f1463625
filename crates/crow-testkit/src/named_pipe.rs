//! A named pipe: a test and a command tell each other that they are so far, without looking again and again.

use std::path::Path;

use rustix::fs::{CWD, Mode, mkfifoat};
use tokio::net::unix::pipe::{OpenOptions, Receiver, Sender};

/// One end for both directions of a named pipe. As long as it is held, a command that opens the pipe does not wait for
/// anybody, and what was told is not lost. A shell waits with `read line < PATH`, and tells with `echo > PATH`.
#[derive(Debug)]
pub struct NamedPipe {
    sender: Sender,
    receiver: Receiver,
}

impl NamedPipe {
    /// Makes a pipe where there is none, and opens it. Must be called within a runtime.
    pub fn at(path: &Path) -> Self {
        Self::make(path);
        let mut options = OpenOptions::new();
        options.read_write(true);
        let sender = options.open_sender(path).expect("a named pipe can be opened");
        let receiver = options.open_receiver(path).expect("a named pipe can be opened");
        Self { sender, receiver }
    }

    /// Makes a pipe where there is none.
    pub fn make(path: &Path) {
        if !path.exists() {
            mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).expect("a named pipe can be made");
        }
    }

    /// Tells whoever waits.
    pub async fn tell(&self) {
        loop {
            self.sender.writable().await.expect("a named pipe can be waited for");
            match self.sender.try_write(b"\n") {
                Ok(_) => return,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => panic!("a named pipe cannot be written: {error}"),
            }
        }
    }

    /// Waits until it is told.
    pub async fn told(&self) {
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

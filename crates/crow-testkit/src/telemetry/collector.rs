//! The server of the collector.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
};

use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpListener, TcpStream},
    sync::oneshot,
};

use super::record::{TelemetryRecord, TelemetryViolations};
use crate::http::{RequestReadError, RequestReader, full_response};

/// Maximum size of a body, in bytes.
const MAX_BODY: usize = 32 << 20;

/// A collector of OTLP over HTTP on loopback, on a thread of its own, so that it also serves tests without a tokio runtime.
#[derive(Debug)]
pub struct TelemetryCollector {
    address: SocketAddr,
    record: Arc<Mutex<TelemetryRecord>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl TelemetryCollector {
    /// Starts a collector.
    pub fn start() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let record = Arc::new(Mutex::new(TelemetryRecord::new()));
        let (stop, stopped) = oneshot::channel();
        let shared = Arc::clone(&record);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                tokio::select! {
                    () = accept(TcpListener::from_std(listener).unwrap(), shared) => {}
                    // Also if the sender is gone.
                    _ = stopped => {}
                }
            });
        });
        Self { address, record, stop: Some(stop), thread: Some(thread) }
    }

    /// Returns the value of `OTEL_EXPORTER_OTLP_ENDPOINT`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns what was received until now. Requests wait while it is held.
    pub fn record(&self) -> MutexGuard<'_, TelemetryRecord> {
        lock(&self.record)
    }

    /// Holds what was received until now against the conventions.
    ///
    /// # Errors
    /// Fails with all that is wrong.
    pub fn check(&self) -> Result<(), TelemetryViolations> {
        self.record().check()
    }
}

impl Drop for TelemetryCollector {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

async fn accept(listener: TcpListener, record: Arc<Mutex<TelemetryRecord>>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(serve(stream, Arc::clone(&record)));
        while connections.try_join_next().is_some() {}
    }
}

/// Answers the requests of a client until it leaves.
async fn serve(mut stream: TcpStream, record: Arc<Mutex<TelemetryRecord>>) {
    let mut reader = RequestReader::new(MAX_BODY);
    while let Ok(mut request) = reader.read_head(&mut stream).await {
        if let Err(error) = reader.read_body(&mut stream, &mut request).await {
            // Programs are killed while they send.
            if !matches!(error, RequestReadError::Disconnected) {
                lock(&record).refuse(format!("{}: {error}", request.target));
            }
            return;
        }
        let is_protobuf = request.header("content-type") == Some("application/x-protobuf");
        let is_taken = request.method == "POST"
            && is_protobuf
            && lock(&record).receive(&request.target, &request.body);
        if !is_taken {
            let violation = format!("{} {}: no such request", request.method, request.target);
            lock(&record).refuse(violation);
        }
        let status = if is_taken { 200 } else { 400 };
        let headers = [("content-type".to_owned(), "application/x-protobuf".to_owned())];
        if stream.write_all(&full_response(status, &headers, b"")).await.is_err() {
            return;
        }
    }
}

fn lock(record: &Mutex<TelemetryRecord>) -> MutexGuard<'_, TelemetryRecord> {
    record.lock().unwrap_or_else(PoisonError::into_inner)
}

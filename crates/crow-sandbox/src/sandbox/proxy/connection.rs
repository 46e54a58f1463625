//! One connection of a command: reads the request head, decides, and relays bytes.

use std::{io, time::Duration};

use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{
        TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    select,
    time::timeout,
};

use super::{
    dial,
    proxy_error::ProxyError,
    pump::{self, BodyRelayError, IdleTimer},
    request::{BodyFraming, HEAD_LIMIT, MalformedRequest, ProxyMode, ProxyRequest},
    server::ProxyContext,
};

/// Buffer size per direction, in bytes.
const BUFFER: usize = 16 * 1024;
const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";
/// Time and number of bytes for which the rest of a refused request is read: closing the connection earlier
/// could destroy the answer before the command reads it.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: u64 = 256 * 1024;

type ConnectionReader<'a> = BufReader<ReadHalf<'a>>;

/// Serves one connection until it ends.
pub(super) async fn serve(mut client: TcpStream, shared: &ProxyContext) {
    // Sends data without delay; works without this option, too.
    drop(client.set_nodelay(true));
    let (reader, mut writer) = client.split();
    let mut reader = BufReader::with_capacity(BUFFER, reader);
    let Err(refusal) = handle(&mut reader, &mut writer, shared).await else { return };
    tracing::debug!(%refusal, "a connection of the sandbox came to nothing");
    if let ProxyError::Host(host) = &refusal {
        shared.refused.push(host.clone());
    }
    if let Some(answer) = refusal.answer() {
        // The answer is lost if the command does not read it in time.
        drop(timeout(LINGER, send_answer(answer, &mut reader, &mut writer)).await);
    }
}

async fn send_answer(
    answer: String,
    reader: &mut ConnectionReader<'_>,
    writer: &mut WriteHalf<'_>,
) -> io::Result<()> {
    writer.write_all(answer.as_bytes()).await?;
    writer.shutdown().await?;
    tokio::io::copy(&mut reader.take(LINGER_BYTES), &mut tokio::io::sink()).await.map(drop)
}

async fn handle(
    client: &mut ConnectionReader<'_>,
    answers: &mut WriteHalf<'_>,
    shared: &ProxyContext,
) -> Result<(), ProxyError> {
    let head = timeout(shared.bounds.head, read_head(client));
    let head = head.await.unwrap_or(Err(ProxyError::TooSlow))?;
    let ProxyRequest { target, mode: way } = ProxyRequest::parse(&head)?;
    let addresses = dial::decide(&target, &shared.allowed)?;
    let limit = shared.bounds.connect;
    let mut server = dial::connect(&target, addresses, &shared.resolver, limit).await?;
    let (reader, writer) = server.split();
    let server = (BufReader::with_capacity(BUFFER, reader), writer);
    let idle = IdleTimer::new(shared.bounds.idle);
    let relay = async {
        match way {
            ProxyMode::Tunnel => tunnel(client, answers, server, &idle).await,
            ProxyMode::Forward { head, body } => {
                forward(&head, body, client, answers, server, &idle).await
            }
        }
    };
    select! {
        relay = relay => Ok(relay?),
        error = idle.passed() => Err(error.into()),
    }
}

/// Reads up to the empty line, and nothing behind it.
async fn read_head(reader: &mut (impl AsyncBufRead + Unpin)) -> Result<Vec<u8>, ProxyError> {
    let mut head = Vec::new();
    loop {
        let start = head.len();
        let room = HEAD_LIMIT.saturating_sub(start);
        (&mut *reader).take(room as u64).read_until(b'\n', &mut head).await?;
        let line = &head[start..];
        if !line.ends_with(b"\n") {
            let is_full = head.len() >= HEAD_LIMIT;
            let closed = || ProxyError::Gone(io::ErrorKind::UnexpectedEof.into());
            return Err(if is_full { ProxyError::TooLong } else { closed() });
        }
        if !line.ends_with(b"\r\n") {
            return Err(MalformedRequest("a header line does not end with CRLF").into());
        }
        if line == b"\r\n" {
            return Ok(head);
        }
    }
}

/// Relays bytes in both directions. Each direction is closed separately.
async fn tunnel(
    client: &mut ConnectionReader<'_>,
    answers: &mut WriteHalf<'_>,
    (mut reader, mut writer): (ConnectionReader<'_>, WriteHalf<'_>),
    idle: &IdleTimer,
) -> io::Result<()> {
    answers.write_all(ESTABLISHED).await?;
    let to_server = pump::all(client, &mut writer, idle);
    let to_client = pump::all(&mut reader, answers, idle);
    tokio::try_join!(to_server, to_client).map(drop)
}

/// Relays one request and its answer. Further requests of the command are not read: they would reach a host
/// that was not checked.
async fn forward(
    head: &str,
    body: BodyFraming,
    client: &mut ConnectionReader<'_>,
    answers: &mut WriteHalf<'_>,
    (mut reader, mut writer): (ConnectionReader<'_>, WriteHalf<'_>),
    idle: &IdleTimer,
) -> io::Result<()> {
    let upload = async {
        let result = match writer.write_all(head.as_bytes()).await {
            Ok(()) => pump::body(body, client, &mut writer, idle).await,
            Err(_) => Err(BodyRelayError::Sink),
        };
        match result {
            Err(BodyRelayError::Source(error)) => error,
            // The connection ends with the answer.
            Ok(()) | Err(BodyRelayError::Sink) => std::future::pending().await,
        }
    };
    select! {
        error = upload => Err(error),
        answered = pump::all(&mut reader, answers, idle) => answered,
    }
}

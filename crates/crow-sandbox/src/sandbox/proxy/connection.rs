//! One connection of a command: its head, the decision, and what goes to and fro.

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

/// How much of one direction is held at once.
const BUFFER: usize = 16 * 1024;
const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";
/// How long, and how much, is read of what a command still sends while it is told of a refusal: a connection that is
/// closed before would take the answer with it.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: u64 = 256 * 1024;

type ConnectionReader<'a> = BufReader<ReadHalf<'a>>;

/// Serves a connection to its end.
pub(super) async fn serve(mut client: TcpStream, shared: &ProxyContext) {
    // What is written should go at once; where that cannot be had, it goes all the same.
    drop(client.set_nodelay(true));
    let (reader, mut writer) = client.split();
    let mut reader = BufReader::with_capacity(BUFFER, reader);
    let Err(refusal) = handle(&mut reader, &mut writer, shared).await else { return };
    tracing::debug!(%refusal, "a connection of the sandbox came to nothing");
    if let ProxyError::Host(host) = &refusal {
        shared.refused.push(host.clone());
    }
    if let Some(answer) = refusal.answer() {
        // A command that does not read its answer is not told.
        drop(timeout(LINGER, tell(answer, &mut reader, &mut writer)).await);
    }
}

async fn tell(
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
    let ProxyRequest { target, way } = ProxyRequest::parse(&head)?;
    let place = dial::decide(&target, &shared.allowed)?;
    let limit = shared.bounds.connect;
    let mut server = dial::connect(&target, place, &shared.resolver, limit).await?;
    let (reader, writer) = server.split();
    let server = (BufReader::with_capacity(BUFFER, reader), writer);
    let idle = IdleTimer::new(shared.bounds.idle);
    let moved = async {
        match way {
            ProxyMode::Tunnel => tunnel(client, answers, server, &idle).await,
            ProxyMode::Forward { head, body } => {
                forward(&head, body, client, answers, server, &idle).await
            }
        }
    };
    select! {
        moved = moved => Ok(moved?),
        error = idle.passed() => Err(error.into()),
    }
}

/// Reads up to the empty line, and nothing of what follows it.
async fn read_head(reader: &mut (impl AsyncBufRead + Unpin)) -> Result<Vec<u8>, ProxyError> {
    let mut head = Vec::new();
    loop {
        let start = head.len();
        let left = HEAD_LIMIT.saturating_sub(start);
        (&mut *reader).take(left as u64).read_until(b'\n', &mut head).await?;
        let line = head.get(start..).unwrap_or_default();
        if !line.ends_with(b"\n") {
            let is_full = head.len() >= HEAD_LIMIT;
            let gone = || ProxyError::Gone(io::ErrorKind::UnexpectedEof.into());
            return Err(if is_full { ProxyError::TooLong } else { gone() });
        }
        if !line.ends_with(b"\r\n") {
            return Err(MalformedRequest("a line of its head has an end of another kind").into());
        }
        if line == b"\r\n" {
            return Ok(head);
        }
    }
}

/// Moves bytes both ways. Each direction ends by itself.
async fn tunnel(
    client: &mut ConnectionReader<'_>,
    answers: &mut WriteHalf<'_>,
    (mut reader, mut writer): (ConnectionReader<'_>, WriteHalf<'_>),
    idle: &IdleTimer,
) -> io::Result<()> {
    answers.write_all(ESTABLISHED).await?;
    let there = pump::all(client, &mut writer, idle);
    let back = pump::all(&mut reader, answers, idle);
    tokio::try_join!(there, back).map(drop)
}

/// Moves one request there and its answer back. What the command sends after it is not read: it would go to a host that
/// nobody has looked at.
async fn forward(
    head: &str,
    body: BodyFraming,
    client: &mut ConnectionReader<'_>,
    answers: &mut WriteHalf<'_>,
    (mut reader, mut writer): (ConnectionReader<'_>, WriteHalf<'_>),
    idle: &IdleTimer,
) -> io::Result<()> {
    let there = async {
        let sent = match writer.write_all(head.as_bytes()).await {
            Ok(()) => pump::body(body, client, &mut writer, idle).await,
            Err(_) => Err(BodyRelayError::Sink),
        };
        match sent {
            Err(BodyRelayError::Source(error)) => error,
            // The answer is the end.
            Ok(()) | Err(BodyRelayError::Sink) => std::future::pending().await,
        }
    };
    select! {
        error = there => Err(error),
        answered = pump::all(&mut reader, answers, idle) => answered,
    }
}

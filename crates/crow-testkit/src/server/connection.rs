//! The handling of one client connection.

use std::sync::Arc;

use bytes::Bytes;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::check::{Rule, SentReply};
use super::response_options::{stream_headers, wire_options};
use super::state::ModelServerState;
use super::{
    AnswerState, BodyChunk, BodyEnd, Delivery, Fault, RecordedRequest, ScriptStep, StreamGate,
    fault,
};
use crate::http::{
    LAST_CHUNK, RawRequest, RequestReadError, RequestReader, chunked_head, full_response,
    push_chunk,
};
use crate::wire::{
    ErrorResponse, ScriptedReply, ScriptedStop, VendorError, WireDialect, model_list,
};

/// Serves requests until either side ends the connection.
pub(super) async fn serve(stream: TcpStream, number: usize, state: Arc<ModelServerState>) {
    // Without the option the socket still works, only with delay.
    drop(stream.set_nodelay(true));
    let reader = RequestReader::new(state.options.checks.max_body);
    ClientConnection { stream, reader, number, state }.run().await;
}

struct ClientConnection {
    stream: TcpStream,
    reader: RequestReader,
    number: usize,
    state: Arc<ModelServerState>,
}

/// Fate of the connection after a response.
enum KeepAlive {
    Keep,
    Close,
}

/// The client has disconnected.
struct ClientDisconnect;

/// Paths at which servers of models tell the window that they run a model with.
const WINDOW_PATHS: [&str; 3] = ["/props", "/api/ps", "/api/v0/models"];

impl ClientConnection {
    async fn run(mut self) {
        loop {
            let request = match self.read().await {
                Ok(request) => request,
                Err(RequestReadError::Disconnected) => return,
                Err(RequestReadError::TooLarge { limit }) => {
                    let text = format!("the request body has more than {limit} bytes");
                    self.state.add_violation(None, Rule::BodySize, text.clone());
                    drop(self.write(&plain(413, &text)).await);
                    return;
                }
                Err(error @ RequestReadError::Malformed(_)) => {
                    self.state.add_violation(None, Rule::Http, error.to_string());
                    drop(self.write(&plain(400, &error.to_string())).await);
                    return;
                }
            };
            let wants_close = request.wants_close();
            match self.answer(request).await {
                Ok(KeepAlive::Keep) if !wants_close => {}
                Ok(KeepAlive::Keep | KeepAlive::Close) | Err(ClientDisconnect) => return,
            }
        }
    }

    async fn read(&mut self) -> Result<RawRequest, RequestReadError> {
        let mut request = self.reader.read_head(&mut self.stream).await?;
        if request.header("expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue"))
        {
            let interim = b"HTTP/1.1 100 Continue\r\n\r\n";
            self.stream.write_all(interim).await.map_err(|_| RequestReadError::Disconnected)?;
        }
        self.reader.read_body(&mut self.stream, &mut request).await?;
        Ok(request)
    }

    /// Responds to a request: the list of models, a model request, or 404.
    async fn answer(&mut self, raw: RawRequest) -> Result<KeepAlive, ClientDisconnect> {
        let path = raw.target.split('?').next().unwrap_or_default();
        if raw.method == "GET" && WINDOW_PATHS.contains(&path) {
            self.write(&plain(404, "this server does not tell its window")).await?;
            return Ok(KeepAlive::Keep);
        }
        if raw.method == "GET" && path.ends_with("/models") {
            return self.list_models(&raw).await;
        }
        let Some(dialect) = WireDialect::of_path(path).filter(|_| raw.method == "POST") else {
            let text = format!("no such endpoint: {} {}", raw.method, raw.target);
            self.state.add_violation(None, Rule::Http, text.clone());
            self.write(&plain(404, &text)).await?;
            return Ok(KeepAlive::Keep);
        };
        let request = self.state.record(dialect, raw, self.number);
        let outcome = self.answer_model(&request).await;
        let state = match outcome {
            Ok(_) => AnswerState::Sent,
            Err(ClientDisconnect) => AnswerState::ClientDisconnected,
        };
        self.state.record_end(request.index, state);
        outcome
    }

    async fn list_models(&mut self, raw: &RawRequest) -> Result<KeepAlive, ClientDisconnect> {
        self.state.lock().model_lists += 1;
        self.state.notify_waiters();
        let dialect = if raw.header("anthropic-version").is_some() {
            WireDialect::AnthropicMessages
        } else if raw.target.contains("/v1beta/") {
            WireDialect::Gemini
        } else {
            WireDialect::OpenAiChat
        };
        if let Some(key) = &self.state.options.key {
            let bearer = format!("Bearer {key}");
            let sent =
                ["x-api-key", "x-goog-api-key", "authorization"].map(|name| raw.header(name));
            if !sent.into_iter().flatten().any(|sent| sent == key || sent == bearer) {
                let error = VendorError::Authentication.response(dialect, "", 0);
                let ErrorResponse { status, headers, body } = error;
                self.write(&full_response(status, &headers, &body)).await?;
                return Ok(KeepAlive::Keep);
            }
        }
        let body = model_list(dialect, &self.state.options.models).to_string();
        self.write(&full_response(200, &json_headers(), body.as_bytes())).await?;
        Ok(KeepAlive::Keep)
    }

    /// Takes a step from the script and sends it.
    async fn answer_model(
        &mut self,
        request: &RecordedRequest,
    ) -> Result<KeepAlive, ClientDisconnect> {
        if request.body.is_null() {
            self.send(request, &plain(400, "the body is not JSON")).await?;
            return Ok(KeepAlive::Keep);
        }
        let step = match self.state.next_step(request) {
            Ok(step) => step,
            Err(none) => {
                self.state.add_violation(Some(request.index), Rule::Script, none.to_string());
                self.send(request, &plain(500, &none.to_string())).await?;
                return Ok(KeepAlive::Keep);
            }
        };
        match step {
            ScriptStep::Reply(reply) => self.reply(request, reply, &[]).await,
            ScriptStep::Faulty { reply, faults } => self.reply(request, reply, &faults).await,
            ScriptStep::Error(error) => {
                let ErrorResponse { status, headers, body } =
                    error.response(request.dialect, request.model(), request.index);
                self.send(request, &full_response(status, &headers, &body)).await?;
                Ok(KeepAlive::Keep)
            }
            ScriptStep::Http { status, headers, body } => {
                self.send(request, &whole_or_json(status, headers, &body)).await?;
                Ok(KeepAlive::Keep)
            }
            ScriptStep::Raw(chunks) => self.stream(request, chunks).await,
            ScriptStep::Silence { gate, ending } => {
                if let Some(gate) = gate {
                    self.wait_at(&gate).await?;
                }
                Ok(self.finish(ending, KeepAlive::Close))
            }
            // Not reached: the state resolves responders.
            ScriptStep::Respond(_) => Ok(KeepAlive::Close),
        }
    }

    async fn reply(
        &mut self,
        request: &RecordedRequest,
        reply: ScriptedReply,
        faults: &[Fault],
    ) -> Result<KeepAlive, ClientDisconnect> {
        let usage = self.state.report_usage(request, reply.usage);
        let reply = reply.with_usage(usage);
        let options = wire_options(request, &self.state.options);
        let chunks = fault::chunks(&reply, faults, request.dialect, &options);
        // Recorded before the first byte: the client's next request may arrive before this task runs again.
        if reply.stop != ScriptedStop::Failed && !faults.iter().any(Fault::truncates) {
            self.state.record_reply(SentReply::new(request.dialect, &options, &reply));
        }
        self.stream(request, chunks).await
    }

    /// Sends a chunked body step by step. Data is buffered up to a wait, unless each chunk is to be written at once.
    async fn stream(
        &mut self,
        request: &RecordedRequest,
        chunks: Vec<BodyChunk>,
    ) -> Result<KeepAlive, ClientDisconnect> {
        let mut out = chunked_head(&stream_headers(request.dialect, request.index));
        for chunk in chunks {
            match chunk {
                BodyChunk::Data(data) if data.is_empty() => {}
                BodyChunk::Data(data) => {
                    push_chunk(&mut out, &data);
                    if self.state.options.delivery == Delivery::Each {
                        self.flush(request, &mut out).await?;
                    }
                }
                BodyChunk::Gate(gate) => {
                    self.flush(request, &mut out).await?;
                    self.wait_at(&gate).await?;
                }
                BodyChunk::Delay(time) => {
                    self.flush(request, &mut out).await?;
                    self.wait_for(tokio::time::sleep(time)).await?;
                }
                BodyChunk::End(BodyEnd::Clean) => break,
                BodyChunk::End(ending @ (BodyEnd::Close | BodyEnd::Reset)) => {
                    self.flush(request, &mut out).await?;
                    return Ok(self.finish(ending, KeepAlive::Close));
                }
            }
        }
        out.extend_from_slice(LAST_CHUNK);
        self.flush(request, &mut out).await?;
        Ok(KeepAlive::Keep)
    }

    async fn wait_at(&mut self, gate: &StreamGate) -> Result<(), ClientDisconnect> {
        self.wait_for(gate.pass()).await
    }

    /// Waits for a future, or fails once the client disconnects.
    async fn wait_for(&mut self, until: impl Future<Output = ()>) -> Result<(), ClientDisconnect> {
        tokio::select! {
            () = until => Ok(()),
            () = self.reader.wait_for_disconnect(&mut self.stream) => Err(ClientDisconnect),
        }
    }

    fn finish(&self, ending: BodyEnd, after: KeepAlive) -> KeepAlive {
        if ending == BodyEnd::Reset {
            // If the option is not supported, the client sees a close instead.
            drop(self.stream.set_zero_linger());
        }
        after
    }

    /// Writes bytes of a response, and records its first byte.
    async fn send(
        &mut self,
        request: &RecordedRequest,
        bytes: &[u8],
    ) -> Result<(), ClientDisconnect> {
        self.write(bytes).await?;
        self.state.record_first_byte(request.index);
        Ok(())
    }

    async fn flush(
        &mut self,
        request: &RecordedRequest,
        out: &mut Vec<u8>,
    ) -> Result<(), ClientDisconnect> {
        if !out.is_empty() {
            self.send(request, out).await?;
            out.clear();
        }
        Ok(())
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), ClientDisconnect> {
        self.stream.write_all(bytes).await.map_err(|_| ClientDisconnect)
    }
}

fn json_headers() -> Vec<(String, String)> {
    vec![("content-type".to_owned(), "application/json".to_owned())]
}

fn whole_or_json(status: u16, mut headers: Vec<(String, String)>, body: &Bytes) -> Vec<u8> {
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
        headers.extend(json_headers());
    }
    full_response(status, &headers, body)
}

fn plain(status: u16, text: &str) -> Vec<u8> {
    let headers = [("content-type".to_owned(), "text/plain; charset=utf-8".to_owned())];
    full_response(status, &headers, format!("crow test kit: {text}\n").as_bytes())
}

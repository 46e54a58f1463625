//! Parser of server-sent events with a limit on the size of each event.

use std::collections::VecDeque;

use crow_core::capability::HttpBody;
use futures_util::{Stream, StreamExt as _, stream};
use rmcp::transport::streamable_http_client::SseError;
use sse_stream::Sse;

/// Parses the events of a body. One of more than `most` bytes is an error, which ends the stream.
pub(crate) fn events(
    body: HttpBody,
    most: usize,
) -> impl Stream<Item = Result<Sse, SseError>> + Send + 'static {
    let reading = Some((body, Events::new(most)));
    stream::unfold(reading, |reading| async move {
        let (mut body, mut events) = reading?;
        loop {
            if let Some(event) = events.ready.pop_front() {
                return Some((Ok(event), Some((body, events))));
            }
            let outcome = match body.next().await? {
                Ok(bytes) => events.take(&bytes),
                Err(error) => Err(SseError::Body(Box::new(error))),
            };
            if let Err(error) = outcome {
                return Some((Err(error), None));
            }
        }
    })
}

/// State of the parser: bytes are fed by `take`, complete events are collected in `ready`.
struct Events {
    most: usize,
    line: Vec<u8>,
    /// True after a carriage return: a line feed that follows belongs to the same line end.
    after_return: bool,
    is_first_line: bool,
    event: Sse,
    /// Bytes of the current event so far.
    size: usize,
    ready: VecDeque<Sse>,
}

#[derive(Debug, thiserror::Error)]
#[error("an event has more than {0} bytes")]
struct TooLarge(usize);

impl Events {
    fn new(most: usize) -> Self {
        Self {
            most,
            line: Vec::new(),
            after_return: false,
            is_first_line: true,
            event: Sse::default(),
            size: 0,
            ready: VecDeque::new(),
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), SseError> {
        for byte in bytes {
            match byte {
                // The second half of a CR LF.
                b'\n' if self.after_return => self.after_return = false,
                b'\n' | b'\r' => {
                    self.after_return = *byte == b'\r';
                    self.end_line()?;
                }
                _ => {
                    self.after_return = false;
                    self.line.push(*byte);
                    self.size += 1;
                    if self.size > self.most {
                        return Err(SseError::Body(Box::new(TooLarge(self.most))));
                    }
                }
            }
        }
        Ok(())
    }

    fn end_line(&mut self) -> Result<(), SseError> {
        let line = std::mem::take(&mut self.line);
        let mut line = std::str::from_utf8(&line).map_err(SseError::Utf8Parse)?;
        if std::mem::replace(&mut self.is_first_line, false) {
            line = line.trim_start_matches('\u{feff}');
        }
        if line.is_empty() {
            // An empty line ends the event.
            self.size = 0;
            let event = std::mem::take(&mut self.event);
            if event != Sse::default() {
                self.ready.push_back(event);
            }
            return Ok(());
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            // A comment is a keep-alive; it does not count towards the size.
            "" => self.size = self.size.saturating_sub(line.len()),
            "data" => match &mut self.event.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                absent => *absent = Some(value.to_owned()),
            },
            "event" => self.event.event = Some(value.to_owned()),
            "id" if !value.contains('\0') => self.event.id = Some(value.to_owned()),
            "retry" => self.event.retry = value.parse().ok(),
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn read(parts: &[&[u8]], most: usize) -> Vec<Result<Sse, String>> {
        let parts: Vec<_> = parts.iter().map(|part| Ok(part.to_vec())).collect();
        let events = events(Box::pin(stream::iter(parts)), most);
        let all = events.map(|event| event.map_err(|error| error.to_string())).collect::<Vec<_>>();
        futures_util::FutureExt::now_or_never(all).unwrap()
    }

    #[test]
    fn events_are_independent_of_how_bytes_are_split() {
        let text = "\u{feff}: hello\r\nid: 7\rdata: ä\ndata: b\r\n\r\n:ping\n\nevent: x\ndata\nretry: 5\n\n";
        let events = read(&[text.as_bytes()], 1000);
        let expected =
            [Sse::default().id("7").data("ä\nb"), Sse::default().event("x").data("").retry(5)];
        assert_eq!(events.clone().into_iter().collect::<Result<Vec<_>, _>>().unwrap(), expected);
        let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(read(&bytes, 1000), events);
    }

    #[test]
    fn an_oversized_event_is_an_error_and_comments_are_not_counted() {
        let comments = ":123456789\n".repeat(50);
        assert_eq!(read(&[comments.as_bytes()], 20), []);
        let long = format!("data: {}", "x".repeat(100));
        let events = read(&[long.as_bytes(), b"more"], 20);
        assert_eq!(events.len(), 1);
        assert!(events[0].as_ref().unwrap_err().contains("more than 20 bytes"), "{events:?}");
    }

    #[test]
    fn a_broken_body_is_an_error() {
        let error = crow_core::capability::HttpError::Broken(io::ErrorKind::BrokenPipe.to_string());
        let events = events(Box::pin(stream::iter([Err(error)])), 10);
        let all = futures_util::FutureExt::now_or_never(events.collect::<Vec<_>>()).unwrap();
        assert!(all.len() == 1 && all[0].is_err());
    }
}

//! Questions to a model server on this machine, beside requests.

use reqwest::Url;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::endpoint::ExtraHeader;

/// Maximum bytes of an answer; the rest is not read.
const LONGEST: u64 = 1024 * 1024;

/// Returns the path of the list of models of a server.
pub(crate) fn list_of_models(base_url: &Url) -> String {
    format!("{}/models", base_url.path().trim_end_matches('/'))
}

/// Gets a JSON document from a server. HTTP/1.0 is written by hand, since it has no chunks and a single request needs no
/// client.
pub(crate) async fn get(url: &Url, path: String, headers: &[ExtraHeader]) -> Option<Value> {
    if url.scheme() != "http" {
        return None;
    }
    let host = url.host_str()?;
    let address = (host.trim_matches(['[', ']']), url.port_or_known_default()?);
    let mut stream = TcpStream::connect(address).await.ok()?;
    let headers = headers.iter().map(|header| format!("{}: {}\r\n", header.name, header.value));
    let headers: String = headers.collect();
    let question = format!(
        "GET {path} HTTP/1.0\r\nHost: {host}\r\nAccept: application/json\r\n{headers}Connection: close\r\n\r\n"
    );
    stream.write_all(question.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.take(LONGEST).read_to_string(&mut answer).await.ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split_ascii_whitespace().nth(1)?;
    serde_json::from_str(body).ok().filter(|_| status == "200")
}

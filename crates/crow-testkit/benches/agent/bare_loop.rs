//! The least that an agent can be: one connection, the history as text, an event reader, `bash -c`.
//!
//! With [`CONFINED_MODE`] it runs commands in bwrap and has git record the project before and after each: the least that
//! an agent with a sandbox and an undo can be.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Command, Output},
};

use serde_json::Value;

/// The argument that turns the benchmark into the bare loop.
pub(crate) const MODE: &str = "--bare-loop";

/// The same with a sandbox and a record of the files.
pub(crate) const CONFINED_MODE: &str = "--confined-bare-loop";

/// Where git records the files, beside the project.
const RECORD: &str = "../record";

/// Works until the model makes no call. `url` is `http://host:port`.
pub(crate) fn run(url: &str, is_confined: bool) {
    if is_confined {
        git(&["init", "-q"]);
    }
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut messages = String::from(r#"{"role":"user","content":"work"}"#);
    loop {
        let body = format!(
            r#"{{"model":"m","max_tokens":100,"stream":true,"tools":[{{"name":"bash","input_schema":{{"type":"object"}}}}],"messages":[{messages}]}}"#
        );
        let head = format!(
            "POST /v1/messages HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\nanthropic-version: 2023-06-01\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).unwrap();
        let Some((id, arguments)) = read_reply(&mut reader) else { return };
        let input: Value = serde_json::from_str(&arguments).unwrap();
        let line = input["command"].as_str().unwrap();
        let output = if is_confined { run_confined(line) } else { run_plain(line) };
        messages.push_str(&format!(
            r#",{{"role":"assistant","content":[{{"type":"tool_use","id":"{id}","name":"bash","input":{input}}}]}},{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"{id}","content":"exit code {}"}}]}}"#,
            output.status.code().unwrap()
        ));
    }
}

fn run_plain(line: &str) -> Output {
    Command::new("bash").args(["-c", line]).output().unwrap()
}

fn run_confined(line: &str) -> Output {
    record();
    let here = std::env::current_dir().unwrap();
    let here = here.to_str().unwrap();
    let arguments = ["--unshare-all", "--ro-bind", "/", "/", "--bind", here, here];
    let program = ["--proc", "/proc", "--dev", "/dev", "bash", "-c", line];
    let output = Command::new("bwrap").args(arguments).args(program).output().unwrap();
    record();
    output
}

/// Records the files of the project.
fn record() {
    git(&["add", "-A"]);
    git(&["write-tree"]);
}

fn git(arguments: &[&str]) {
    let mut git = Command::new("git");
    let done =
        git.args(["--git-dir", RECORD, "--work-tree", "."]).args(arguments).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// Reads one reply to the end of its body; returns the id and the arguments of its call, if it made one.
fn read_reply(reader: &mut BufReader<TcpStream>) -> Option<(String, String)> {
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        reader.read_line(&mut line).unwrap();
    }
    let (mut id, mut arguments, mut pending) = (None, String::new(), Vec::new());
    loop {
        line.clear();
        reader.read_line(&mut line).unwrap();
        let size = usize::from_str_radix(line.trim(), 16).unwrap();
        let mut chunk = vec![0; size + 2];
        reader.read_exact(&mut chunk).unwrap();
        if size == 0 {
            return id.map(|id| (id, arguments));
        }
        pending.extend_from_slice(&chunk[..size]);
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = pending.drain(..=end).collect();
            let Some(data) = line.strip_prefix(b"data: ") else { continue };
            let event: Value = serde_json::from_slice(data).unwrap();
            if event["content_block"]["type"] == "tool_use" {
                id = event["content_block"]["id"].as_str().map(str::to_owned);
            }
            arguments.push_str(event["delta"]["partial_json"].as_str().unwrap_or_default());
        }
    }
}

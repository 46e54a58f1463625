use std::{
    cell::Cell,
    io::{self, Write},
    sync::{Arc, Mutex},
    time::Duration,
};

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{AsciicastHeader, AsciicastRecorder, RecordedOutput};
use crate::screen_size::ScreenSize;

/// Bytes in chunks that are cut anywhere: text, characters of several bytes, sequences, and bytes that are no UTF-8.
pub(super) fn any_chunks() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let piece = prop_oneof![
        "(\\PC|[\u{0}-\u{a0}]){0,8}".prop_map(String::into_bytes),
        Just("漢é👩\u{200d}💻".as_bytes().to_vec()),
        Just(b"\x1b[38;2;1;2;3m\x1b]0;title\x07".to_vec()),
        proptest::collection::vec(any::<u8>(), 0..6),
    ];
    let bytes = proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat());
    (bytes, 1_usize..7).prop_map(|(bytes, size)| bytes.chunks(size).map(<[u8]>::to_vec).collect())
}

/// State of a file: what was written, how much of it was flushed, and after how many writes they fail.
#[derive(Debug, Default)]
struct FakeFileState {
    written: Vec<u8>,
    flushed: usize,
    writes_left: Option<usize>,
}

/// A file whose writes can fail.
#[derive(Debug, Clone, Default)]
struct FakeFile(Arc<Mutex<FakeFileState>>);

impl FakeFile {
    fn set_writes_left(&self, writes: Option<usize>) {
        self.0.lock().unwrap().writes_left = writes;
    }

    fn written(&self) -> Vec<u8> {
        self.0.lock().unwrap().written.clone()
    }

    fn lines(&self) -> Vec<Value> {
        let state = self.0.lock().unwrap();
        assert_eq!(state.written.len(), state.flushed);
        let text = std::str::from_utf8(&state.written).unwrap();
        assert!(text.ends_with('\n'));
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Write for FakeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.0.lock().unwrap();
        match state.writes_left {
            Some(0) => return Err(io::Error::from(io::ErrorKind::StorageFull)),
            Some(left) => state.writes_left = Some(left - 1),
            None => {}
        }
        state.written.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        state.flushed = state.written.len();
        Ok(())
    }
}

fn header() -> AsciicastHeader {
    AsciicastHeader {
        size: ScreenSize { columns: 80, rows: 24 },
        started: Timestamp::from_second(1_700_000_000).unwrap(),
        term: None,
        shell: None,
    }
}

fn recorder(file: &FakeFile) -> AsciicastRecorder<FakeFile> {
    AsciicastRecorder::new(file.clone(), &header()).unwrap()
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn the_header_has_what_is_known() {
    let table = [
        (header(), json!({"version": 2, "width": 80, "height": 24, "timestamp": 1_700_000_000})),
        (
            AsciicastHeader {
                term: Some("xterm-256color".to_owned()),
                shell: Some("/bin/zsh".to_owned()),
                ..header()
            },
            json!({
                "version": 2, "width": 80, "height": 24, "timestamp": 1_700_000_000,
                "env": {"TERM": "xterm-256color", "SHELL": "/bin/zsh"},
            }),
        ),
        (
            AsciicastHeader { term: Some("tmux".to_owned()), ..header() },
            json!({
                "version": 2, "width": 80, "height": 24, "timestamp": 1_700_000_000,
                "env": {"TERM": "tmux"},
            }),
        ),
    ];
    for (header, expected) in table {
        let file = FakeFile::default();
        AsciicastRecorder::new(file.clone(), &header).unwrap();
        assert_eq!(file.lines(), [expected]);
    }
}

#[test]
fn every_event_is_a_line_with_its_time() {
    let file = FakeFile::default();
    let mut recorder = recorder(&file);
    recorder.on_output(millis(0), b"\x1b[1mhi\r\n");
    recorder.on_output(millis(1500), "漢".as_bytes());
    recorder.on_resize(millis(1500), ScreenSize { columns: 100, rows: 50 });
    // An hour without output stays an hour.
    recorder.on_output(Duration::from_hours(1), b"x");
    recorder.finish(Duration::from_secs(3601)).unwrap();
    let lines = file.lines();
    assert_eq!(
        lines[1..],
        [
            json!([0.0, "o", "\u{1b}[1mhi\r\n"]),
            json!([1.5, "o", "漢"]),
            json!([1.5, "r", "100x50"]),
            json!([3600.0, "o", "x"]),
        ]
    );
}

#[test]
fn a_line_has_no_control_characters_whatever_was_written() {
    let file = FakeFile::default();
    let mut recorder = recorder(&file);
    let all: Vec<u8> = (0..=255).collect();
    recorder.on_output(millis(0), &all);
    recorder.finish(millis(0)).unwrap();
    assert!(file.written().iter().all(|byte| *byte == b'\n' || *byte >= b' '));
    assert_eq!(file.lines().len(), 2);
}

#[test]
fn a_character_that_is_cut_is_recorded_whole() {
    let file = FakeFile::default();
    let mut recorder = recorder(&file);
    let [first, second, third] = *"漢".as_bytes() else { unreachable!() };
    recorder.on_output(millis(1), &[b'a', first, second]);
    recorder.on_output(millis(2), &[third]);
    recorder.on_output(millis(3), &[first]);
    recorder.finish(millis(4)).unwrap();
    assert_eq!(
        file.lines()[1..],
        [json!([0.001, "o", "a"]), json!([0.002, "o", "漢"]), json!([0.004, "o", "\u{fffd}"])]
    );
}

#[test]
fn times_never_go_back() {
    let file = FakeFile::default();
    let mut recorder = recorder(&file);
    for time in [5, 3, 7] {
        recorder.on_output(millis(time), b"x");
    }
    recorder.finish(millis(1)).unwrap();
    let times: Vec<f64> = file.lines()[1..].iter().map(|line| line[0].as_f64().unwrap()).collect();
    assert_eq!(times, [0.005, 0.005, 0.007]);
}

#[test]
fn a_recording_that_is_cut_anywhere_is_readable_up_to_its_last_line() {
    let file = FakeFile::default();
    let mut recorder = recorder(&file);
    for _ in 0..3 {
        recorder.on_output(millis(1), b"x");
        // Everything up to here is in the file already.
        file.lines();
    }
    assert_eq!(file.lines().len(), 4);
}

#[test]
fn a_header_that_cannot_be_written_is_an_error_at_once() {
    let file = FakeFile::default();
    file.set_writes_left(Some(0));
    let error = AsciicastRecorder::new(file, &header()).unwrap_err();
    assert_eq!(error.events, 0);
}

#[test]
fn an_error_of_the_recording_leaves_the_terminal_alone_and_is_told_once() {
    let file = FakeFile::default();
    let recorder = Arc::new(Mutex::new(recorder(&file)));
    let mut terminal = Vec::new();
    let now = Cell::new(millis(0));
    let mut output = RecordedOutput::new(&mut terminal, Arc::clone(&recorder), || now.get());
    output.write_all(b"one").unwrap();
    file.set_writes_left(Some(0));
    now.set(millis(250));
    output.write_all(b"two").unwrap();
    file.set_writes_left(None);
    output.write_all(b"three").unwrap();
    output.flush().unwrap();
    assert_eq!(terminal, b"onetwothree");
    assert_eq!(file.lines()[1..], [json!([0.0, "o", "one"])]);
    let mut recorder = recorder.lock().unwrap();
    let error = recorder.finish(millis(300)).unwrap_err();
    assert_eq!(error.events, 1);
    assert_eq!(error.to_string(), "the recording could not be written, and ends after 1 event");
    recorder.finish(millis(300)).unwrap();
    recorder.on_output(millis(400), b"later");
    assert_eq!(file.lines().len(), 2);
}

/// A terminal that takes two bytes at a time, and then fails.
#[derive(Debug)]
struct SlowTerminal(usize);

impl Write for SlowTerminal {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::Error::from(io::ErrorKind::BrokenPipe));
        }
        self.0 -= 1;
        Ok(bytes.len().min(2))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn only_bytes_that_the_terminal_took_are_recorded() {
    let file = FakeFile::default();
    let recorder = Arc::new(Mutex::new(recorder(&file)));
    let mut output = RecordedOutput::new(SlowTerminal(2), recorder, Duration::default);
    assert_eq!(output.write_all(b"abcdef").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    assert_eq!(file.lines()[1..], [json!([0.0, "o", "ab"]), json!([0.0, "o", "cd"])]);
}

proptest! {
    #[test]
    fn the_recorded_text_is_that_of_the_bytes_however_they_are_cut(chunks in any_chunks()) {
        let file = FakeFile::default();
        let mut recorder = recorder(&file);
        for (number, chunk) in (0..).zip(&chunks) {
            recorder.on_output(millis(number), chunk);
        }
        recorder.finish(millis(1000)).unwrap();
        let text: String =
            file.lines()[1..].iter().map(|line| line[2].as_str().unwrap().to_owned()).collect();
        let bytes = chunks.concat();
        prop_assert_eq!(text, String::from_utf8_lossy(&bytes));
    }
}

//! `read_file` on ordinary and hostile PDF files.

use lopdf::{Dictionary, Stream};
use serde_json::json;

use crate::bench::Bench;

/// Encodes a PDF with these objects; the first is the catalog.
fn pdf(objects: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = b"%PDF-1.7\n".to_vec();
    let mut offsets = Vec::new();
    for (number, object) in (1..).zip(objects) {
        offsets.push(bytes.len());
        bytes.extend(format!("{number} 0 obj\n").bytes());
        bytes.extend(object);
        bytes.extend(b"\nendobj\n");
    }
    let table = bytes.len();
    let size = objects.len() + 1;
    bytes.extend(format!("xref\n0 {size}\n0000000000 65535 f \n").bytes());
    for offset in offsets {
        bytes.extend(format!("{offset:010} 00000 n \n").bytes());
    }
    bytes.extend(
        format!("trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{table}\n%%EOF\n").bytes(),
    );
    bytes
}

fn stream(content: &[u8]) -> Vec<u8> {
    let head = format!("<< /Length {} >>\nstream\n", content.len());
    [head.as_bytes(), content, b"\nendstream"].concat()
}

fn deflated(content: Vec<u8>) -> Vec<u8> {
    let mut packed = Stream::new(Dictionary::new(), content);
    packed.compress().unwrap();
    let head = format!("<< /Filter /FlateDecode /Length {} >>\nstream\n", packed.content.len());
    [head.as_bytes(), &packed.content, b"\nendstream"].concat()
}

/// Encodes a PDF with one page for each content stream, in Helvetica.
fn document(contents: Vec<Vec<u8>>) -> Vec<u8> {
    let kids: Vec<String> =
        (0..contents.len()).map(|page| format!("{} 0 R", 4 + 2 * page)).collect();
    let mut objects = vec![
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        format!("<< /Type /Pages /Count {} /Kids [{}] >>", kids.len(), kids.join(" ")).into_bytes(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"
            .to_vec(),
    ];
    for (page, content) in contents.into_iter().enumerate() {
        objects.push(
            format!(
                "<< /Type /Page /Parent 2 0 R /Resources << /Font << /F1 3 0 R >> >> /Contents {} 0 R >>",
                5 + 2 * page
            )
            .into_bytes(),
        );
        objects.push(content);
    }
    pdf(&objects)
}

fn line(text: &str) -> Vec<u8> {
    stream(format!("BT /F1 12 Tf 72 720 Td ({text}) Tj ET").as_bytes())
}

async fn read(bytes: &[u8]) -> String {
    let bench = Bench::new();
    bench.write("a.pdf", bytes);
    bench.ok("read_file", json!({"path": "a.pdf"})).await
}

async fn refusal(bytes: &[u8]) -> String {
    let bench = Bench::new();
    bench.write("a.pdf", bytes);
    let output = bench.fails("read_file", json!({"path": "a.pdf"})).await;
    assert!(output.len() < 500, "{output}");
    output
}

#[tokio::test]
async fn pages_are_shown_with_headings_and_the_last_line_names_the_range() {
    let bytes = document(vec![line("One"), line("caf\\351")]);
    assert_eq!(read(&bytes).await, "Page 1 of 2\nOne\nPage 2 of 2\ncafé\n[pages 1-2 of 2 shown]");
}

#[tokio::test]
async fn the_pages_that_were_asked_for_are_shown() {
    let bench = Bench::new();
    bench.write("a.pdf", document((1..=9).map(|page| line(&format!("p{page}"))).collect()));
    for (pages, expected) in [
        ("3", "Page 3 of 9\np3\n[pages 3-3 of 9 shown; pages=\"4-\" goes on]"),
        ("8-99", "Page 8 of 9\np8\nPage 9 of 9\np9\n[pages 8-9 of 9 shown]"),
    ] {
        assert_eq!(bench.ok("read_file", json!({"path": "a.pdf", "pages": pages})).await, expected);
    }
    let output = bench.fails("read_file", json!({"path": "a.pdf", "pages": "10"})).await;
    assert!(output.ends_with("it has only 9 pages"), "{output}");
    let output = bench.fails("read_file", json!({"path": "a.pdf", "offset": 3})).await;
    assert!(output.contains("read by pages"), "{output}");
}

#[tokio::test]
async fn a_long_document_ends_between_pages_before_50_kib() {
    let page = line(&"word ".repeat(2000));
    let output = read(&document(vec![page; 20])).await;
    assert!(output.ends_with("[pages 1-5 of 20 shown; pages=\"6-\" goes on]"), "{}", output.len());
    assert!(output.len() < 51 * 1024);
}

#[tokio::test]
async fn a_page_that_alone_is_too_long_is_cut() {
    let lines: Vec<String> = (0..9000).map(|line| format!("({line}) Tj T*")).collect();
    let page = lines.join(" ");
    let content = stream(format!("BT /F1 12 Tf 14 TL {page} ET").as_bytes());
    let output = read(&document(vec![content, line("x")])).await;
    assert!(output.contains("\n7\n8\n"), "{output}");
    assert!(output.contains("the rest of this page is cut"), "{output}");
    assert!(output.ends_with("[pages 1-1 of 2 shown; pages=\"2-\" goes on]"), "{output}");
}

#[tokio::test]
async fn lines_and_words_are_separated_by_their_positions() {
    let content =
        b"BT /F1 10 Tf 1 0 0 1 72 700 Tm (Hel) Tj 15 0 Td (lo) Tj 60 0 Td (there) Tj 0 -12 Td \
        [(W) 30 (orld) -300 (again)] TJ ET BT 72 600 Td (end) Tj ET";
    let output = read(&document(vec![stream(content)])).await;
    assert!(output.starts_with("Page 1 of 1\nHello there\nWorld again\nend\n"), "{output}");
}

#[tokio::test]
async fn character_codes_are_decoded_with_the_fonts_unicode_table() {
    let table = "1 begincodespacerange <0000> <FFFF> endcodespacerange \
        1 beginbfrange <0001> <0003> <0061> endbfrange";
    let bytes = pdf(&[
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        b"<< /Type /Pages /Count 1 /Kids [3 0 R] >>".to_vec(),
        b"<< /Type /Page /Parent 2 0 R /Resources << /Font << /F1 4 0 R >> >> /Contents 6 0 R >>"
            .to_vec(),
        b"<< /Type /Font /Subtype /Type0 /Encoding /Identity-H /ToUnicode 5 0 R >>".to_vec(),
        deflated(table.repeat(9).into_bytes()),
        stream(b"BT /F1 12 Tf <000300020001> Tj ET"),
    ]);
    assert!(read(&bytes).await.starts_with("Page 1 of 1\ncba\n"));
}

#[tokio::test]
async fn a_page_without_text_is_reported_as_a_possible_scan() {
    let output = read(&document(vec![stream(b"q 10 0 0 10 0 0 cm /Im1 Do Q")])).await;
    assert!(output.contains("these pages hold no text: they may be scans"), "{output}");
}

#[tokio::test]
async fn an_encrypted_file_is_refused_however_the_key_is_spelled() {
    let plain = String::from_utf8(document(vec![line("x")])).unwrap();
    for name in ["/Encrypt", "/#45ncr#79pt"] {
        let bytes = plain.replace("/Root", &format!("{name} 9 0 R /Root"));
        assert!(refusal(bytes.as_bytes()).await.contains("it is encrypted"), "{name}");
    }
}

#[tokio::test]
async fn a_file_with_a_wrong_cross_reference_table_is_read() {
    let plain = String::from_utf8(document(vec![line("found")])).unwrap();
    let bytes = plain.replace("%PDF-1.7\n", "%PDF-1.7\n% some bytes that move everything\n");
    assert!(read(bytes.as_bytes()).await.contains("found"));
}

#[tokio::test]
async fn a_file_that_is_cut_off_anywhere_never_panics() {
    let bytes = document(vec![line("One"), line("Two")]);
    let bench = Bench::new();
    for end in (5..bytes.len()).step_by(7) {
        bench.write("a.pdf", &bytes[..end]);
        let result = bench.run("read_file", json!({"path": "a.pdf"})).await;
        assert!(!result.output.contains("made to confuse"), "{}", result.output);
    }
}

#[tokio::test]
async fn objects_nested_deeply_do_not_exhaust_the_stack() {
    for (open, close) in [("[", "]"), ("<< /A ", " >>"), ("(", ")"), ("[ << /A [ ", " ] >> ]")] {
        let nested = [open.repeat(50_000), "1".to_owned(), close.repeat(50_000)].concat();
        let operand = stream(format!("{nested} Tj BT /F1 9 Tf {nested} TJ ET").as_bytes());
        let mut objects = vec![
            b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
            b"<< /Type /Pages /Count 1 /Kids [3 0 R] >>".to_vec(),
            b"<< /Type /Page /Parent 2 0 R /Contents 4 0 R >>".to_vec(),
            operand,
        ];
        objects.push(nested.into_bytes());
        let output = read(&pdf(&objects)).await;
        assert!(output.ends_with("[pages 1-1 of 1 shown]"), "{output}");
    }
}

#[tokio::test]
async fn loops_in_the_page_tree_terminate() {
    for (kids, parent) in [("2 0 R", "2 0 R"), ("3 0 R 2 0 R 3 0 R", "3 0 R"), ("3 0 R", "2 0 R")] {
        let bytes = pdf(&[
            b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
            format!("<< /Type /Pages /Count 1 /Parent 2 0 R /Kids [{kids}] >>").into_bytes(),
            format!("<< /Type /Page /Parent {parent} /Contents [3 0 R 4 0 R] >>").into_bytes(),
            b"4 0 R".to_vec(),
        ]);
        let bench = Bench::new();
        bench.write("a.pdf", bytes);
        let output = bench.run("read_file", json!({"path": "a.pdf"})).await.output;
        assert!(!output.contains("made to confuse") && output.len() < 2000, "{output}");
    }
}

#[tokio::test]
async fn declared_sizes_and_counts_are_not_trusted() {
    let bytes = pdf(&[
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        b"<< /Type /Pages /Count 999999999999 /Kids [3 0 R] >>".to_vec(),
        b"<< /Type /Page /Parent 2 0 R /Contents 4 0 R >>".to_vec(),
        b"<< /Length 999999999999999 >>\nstream\nBT ET\nendstream".to_vec(),
    ]);
    assert!(read(&bytes).await.ends_with("[pages 1-1 of 1 shown]"));
    let bytes = String::from_utf8(bytes).unwrap().replace("0 5\n", "0 4294967295\n");
    refusal_or_text(bytes.as_bytes()).await;
}

async fn refusal_or_text(bytes: &[u8]) {
    let bench = Bench::new();
    bench.write("a.pdf", bytes);
    let output = bench.run("read_file", json!({"path": "a.pdf"})).await.output;
    assert!(output.len() < 2000 && !output.contains("made to confuse"), "{output}");
}

#[tokio::test]
async fn a_stream_that_inflates_to_too_much_data_is_not_inflated() {
    let bytes = document(vec![deflated(vec![b' '; 32 << 20]), line("after")]);
    assert!(bytes.len() < 1 << 20);
    let output = read(&bytes).await;
    assert!(
        output.contains("this page was not read") || output.contains("too much memory"),
        "{output}"
    );
}

#[tokio::test]
async fn an_object_stream_that_holds_too_much_is_refused() {
    let member = deflated([b"9 0 (".to_vec(), vec![b'x'; 9 << 20], b")".to_vec()].concat());
    let head = b"<< /Type /ObjStm /N 1 /First 4 ";
    let container = [head.as_slice(), &member[2..]].concat();
    let mut objects = vec![
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        b"<< /Type /Pages /Kids [] >>".to_vec(),
    ];
    objects.push(container);
    let output = refusal(&pdf(&objects)).await;
    assert!(output.contains("too much memory or time"), "{output}");
}

#[tokio::test]
async fn a_cancelled_pdf_read_is_cancelled() {
    let bench = Bench::new();
    bench.write("a.pdf", document(vec![line("x")]));
    let plan = bench.plan("read_file", &json!({"path": "a.pdf"})).await.unwrap();
    bench.ctx.cancellation.cancel();
    let result = bench.tool("read_file").execute(json!({"path": "a.pdf"}), &plan, &bench.ctx).await;
    assert_eq!(result.status, crow_core::tool::ToolStatus::Cancelled);
}

#[test]
fn an_object_in_memory_is_as_small_as_the_bounds_assume() {
    assert!(size_of::<lopdf::Object>() <= 128, "{}", size_of::<lopdf::Object>());
}

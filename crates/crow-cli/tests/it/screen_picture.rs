//! A terminal's screen as an SVG picture.

use std::fmt::Write as _;

use regex::Regex;
use vt100::{Cell, Color, Screen};

/// Size of a cell in pixels: the advance of usual monospaced fonts at [`FONT_SIZE`].
const CELL: (f64, f64) = (8.4, 19.0);
const FONT_SIZE: f64 = 14.0;
/// Space around the text in pixels.
const MARGIN: f64 = 16.0;
/// Replacement for durations, which differ from run to run.
const DURATION: &str = "12 ms";

/// Colours of a picture.
pub(crate) struct Palette {
    background: &'static str,
    border: &'static str,
    text: &'static str,
    /// The 16 colours that a program selects by number.
    colors: [&'static str; 16],
}

pub(crate) const LIGHT: Palette = Palette {
    background: "#ffffff",
    border: "#d0d7de",
    text: "#1f2328",
    colors: [
        "#24292f", "#cf222e", "#116329", "#7d4e00", "#0969da", "#8250df", "#1b7c83", "#6e7781",
        "#57606a", "#a40e26", "#1a7f37", "#633c01", "#218bff", "#a475f9", "#3192aa", "#8c959f",
    ],
};

pub(crate) const DARK: Palette = Palette {
    background: "#0d1117",
    border: "#30363d",
    text: "#e6edf3",
    colors: [
        "#484f58", "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf", "#b1bac4",
        "#6e7681", "#ffa198", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#ffffff",
    ],
};

/// A cell's text and how it is drawn.
#[derive(Clone)]
struct Glyph {
    text: String,
    columns: usize,
    style: GlyphStyle,
}

#[derive(Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "the attributes of a cell can be combined")]
struct GlyphStyle {
    color: Color,
    background: Color,
    inverse: bool,
    bold: bool,
    dim: bool,
    italic: bool,
    underline: bool,
}

/// Renders the rows of a screen up to the last one with text.
pub(crate) fn svg(screen: &Screen, palette: &Palette, title: &str) -> String {
    let columns = screen.size().1.get();
    let mut rows: Vec<Vec<Glyph>> = (0..screen.size().0.get())
        .map(|row| (0..columns).filter_map(|column| glyph(screen.cell(row, column)?)).collect())
        .collect();
    while rows.last().is_some_and(|row| text_of(row).trim().is_empty()) {
        rows.pop();
    }
    let width = f64::from(columns) * CELL.0 + 2.0 * MARGIN;
    let height = pixels(rows.len(), CELL.1) + 2.0 * MARGIN;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\">\n\
         <title>{title}</title>\n\
         <rect x=\"0.5\" y=\"0.5\" width=\"{:.0}\" height=\"{:.0}\" rx=\"8\" fill=\"{}\" stroke=\"{}\"/>\n\
         <g font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" font-size=\"{FONT_SIZE}\" fill=\"{}\" xml:space=\"preserve\">\n",
        width - 1.0,
        height - 1.0,
        palette.background,
        palette.border,
        palette.text,
    );
    for (number, row) in rows.iter().enumerate() {
        write_row(&with_fixed_durations(row), number, palette, &mut out);
    }
    out + "</g>\n</svg>\n"
}

fn glyph(cell: &Cell) -> Option<Glyph> {
    if cell.is_wide_continuation() {
        return None;
    }
    let text = if cell.has_contents() { cell.contents().to_owned() } else { " ".to_owned() };
    Some(Glyph {
        text,
        columns: if cell.is_wide() { 2 } else { 1 },
        style: GlyphStyle {
            color: cell.fgcolor(),
            background: cell.bgcolor(),
            inverse: cell.inverse(),
            bold: cell.bold(),
            dim: cell.dim(),
            italic: cell.italic(),
            underline: cell.underline(),
        },
    })
}

fn text_of(row: &[Glyph]) -> String {
    row.iter().map(|glyph| glyph.text.as_str()).collect()
}

/// Returns the row with every duration replaced by [`DURATION`].
fn with_fixed_durations(row: &[Glyph]) -> Vec<Glyph> {
    let text = text_of(row);
    let durations = Regex::new(r"\b\d+(\.\d+)? (ms|s)\b").unwrap();
    let mut fixed = Vec::new();
    let mut next = 0;
    for duration in durations.find_iter(&text) {
        let first = text[..duration.start()].chars().count();
        fixed.extend_from_slice(&row[next..first]);
        let style = row[first].style;
        fixed.extend(DURATION.chars().map(|c| Glyph { text: c.to_string(), columns: 1, style }));
        next = first + duration.as_str().chars().count();
    }
    fixed.extend_from_slice(&row[next..]);
    fixed
}

/// Writes the backgrounds of a row, and its words, each at its own column: a font of another width moves no column.
fn write_row(row: &[Glyph], number: usize, palette: &Palette, out: &mut String) {
    let top = MARGIN + pixels(number, CELL.1);
    let mut column = 0;
    for run in row.chunk_by(|a, b| a.style == b.style) {
        let columns: usize = run.iter().map(|glyph| glyph.columns).sum();
        if let Some(color) = background(run[0].style, palette) {
            let (x, width) = (MARGIN + pixels(column, CELL.0), pixels(columns, CELL.0));
            let height = CELL.1;
            writeln!(
                out,
                "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{color}\"/>",
            )
            .unwrap();
        }
        column += columns;
    }
    let mut column = 0;
    let mut words = String::new();
    for run in row.chunk_by(|a, b| a.style == b.style && (a.text == " ") == (b.text == " ")) {
        if run[0].text != " " {
            let x = MARGIN + pixels(column, CELL.0);
            let text = text_of(run).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            let attributes = attributes(run[0].style, palette);
            write!(words, "<tspan x=\"{x:.1}\"{attributes}>{text}</tspan>").unwrap();
        }
        column += run.iter().map(|glyph| glyph.columns).sum::<usize>();
    }
    if !words.is_empty() {
        writeln!(out, "<text y=\"{:.1}\">{words}</text>", top + FONT_SIZE).unwrap();
    }
}

/// Returns the colour behind the text, if it is not that of the picture.
fn background(style: GlyphStyle, palette: &Palette) -> Option<String> {
    match (style.inverse, style.background) {
        (true, _) => Some(hex(style.color, palette.text, palette)),
        (false, Color::Default) => None,
        (false, color) => Some(hex(color, palette.background, palette)),
    }
}

fn attributes(style: GlyphStyle, palette: &Palette) -> String {
    let mut attributes = String::new();
    let color = if style.inverse {
        hex(style.background, palette.background, palette)
    } else {
        hex(style.color, palette.text, palette)
    };
    if color != palette.text {
        write!(attributes, " fill=\"{color}\"").unwrap();
    }
    for (is_set, attribute) in [
        (style.bold, " font-weight=\"bold\""),
        (style.dim, " fill-opacity=\"0.65\""),
        (style.italic, " font-style=\"italic\""),
        (style.underline, " text-decoration=\"underline\""),
    ] {
        if is_set {
            attributes.push_str(attribute);
        }
    }
    attributes
}

/// Returns a colour as hexadecimal digits. Of the 256 numbered colours only the first 16 are expected.
fn hex(color: Color, default: &str, palette: &Palette) -> String {
    match color {
        Color::Default => default.to_owned(),
        Color::Idx(index) => palette.colors[usize::from(index)].to_owned(),
        Color::Rgb(red, green, blue) => format!("#{red:02x}{green:02x}{blue:02x}"),
    }
}

fn pixels(count: usize, size: f64) -> f64 {
    f64::from(u32::try_from(count).unwrap()) * size
}

//! The text of a page, in the order in which it is painted.
//!
//! Positions are followed only as far as they show where lines and words end.

use std::collections::BTreeMap;

use lopdf::{Dictionary, Document, Object, ObjectId, content::Content};

use super::{
    cmap::CMap,
    document::{MAX_INFLATED, PdfBudget, PdfError},
    font_encoding::FontEncoding,
};

/// Most bytes of the text of a page.
const MAX_TEXT: usize = 512 * 1024;
/// Most fonts of a page that are read.
const MAX_FONTS: usize = 128;
/// Number of operations between two checks of the budget.
const OPERATIONS_PER_CHECK: usize = 256;

/// The table by which the codes of a font become text.
enum PdfFont {
    Map(CMap),
    Encoding(FontEncoding),
}

/// Returns the text of a page.
pub(super) fn page_text(
    document: &Document,
    page: ObjectId,
    budget: &PdfBudget,
) -> Result<String, PdfError> {
    let mut fonts = BTreeMap::new();
    for (name, font) in document.get_page_fonts(page)?.into_iter().take(MAX_FONTS) {
        budget.check()?;
        if let Some(font) = font_of(document, font) {
            fonts.insert(name, font);
        }
    }
    let content = content_of(document, page, budget)?;
    let mut painter = TextPainter::default();
    let mut font = None;
    for (number, operation) in Content::decode_iter(&content).enumerate() {
        if number % OPERATIONS_PER_CHECK == 0 {
            budget.check()?;
        }
        let Ok(operation) = operation else { break };
        if operation.operator == "Tf" {
            let name = operation.operands.first().and_then(|name| name.as_name().ok());
            font = name.and_then(|name| fonts.get(name));
            painter.size = number_at(&operation.operands, 1);
            continue;
        }
        painter.paint(&operation.operator, &operation.operands, font);
        if painter.text.len() > MAX_TEXT {
            break;
        }
    }
    painter.text.retain(|letter| letter == '\n' || letter == '\t' || !letter.is_control());
    Ok(painter.text)
}

/// Reads the content streams of a page one after the other, because a page may name many that cost much and yield
/// little.
fn content_of(
    document: &Document,
    page: ObjectId,
    budget: &PdfBudget,
) -> Result<Vec<u8>, PdfError> {
    let mut content = Vec::new();
    for id in document.get_page_contents(page) {
        budget.check()?;
        let Ok(stream) = document.get_object(id).and_then(Object::as_stream) else { continue };
        let remaining = MAX_INFLATED.saturating_sub(content.len());
        content.extend(stream.get_plain_content_with_limit(remaining)?);
        content.push(b'\n');
    }
    Ok(content)
}

fn font_of(document: &Document, font: &Dictionary) -> Option<PdfFont> {
    // The tables of `lopdf` are not used: that of `ToUnicode` has no limit, and those of names are 440 kB of code.
    if font.has(b"ToUnicode") {
        let table = font.get_deref(b"ToUnicode", document).and_then(Object::as_stream).ok()?;
        let bytes = table.get_plain_content_with_limit(MAX_INFLATED).ok()?;
        return CMap::parse(&bytes).map(PdfFont::Map);
    }
    FontEncoding::of_font(document, font).map(PdfFont::Encoding)
}

/// Position of the next text, as far as it shows where lines and words end.
#[derive(Default)]
struct TextPainter {
    text: String,
    size: f32,
    scale: f32,
    leading: f32,
    /// Start of the line.
    line: (f32, f32),
    /// Approximate end of the last text.
    end: Option<(f32, f32)>,
    /// True if the position was set since the last text.
    has_moved: bool,
}

impl TextPainter {
    fn paint(&mut self, operator: &str, operands: &[Object], font: Option<&PdfFont>) {
        let at = |index| number_at(operands, index);
        match operator {
            "BT" => self.move_to((0.0, 0.0), 1.0),
            "Tm" => self.move_to((at(4), at(5)), at(0).hypot(at(1))),
            "TL" => self.leading = at(0),
            "Td" => self.move_by(at(0), at(1)),
            "TD" => {
                self.leading = -at(1);
                self.move_by(at(0), at(1));
            }
            "T*" => self.move_by(0.0, -self.leading),
            "Tj" => self.show(operands, font),
            "'" => {
                self.move_by(0.0, -self.leading);
                self.show(operands, font);
            }
            "\"" => {
                self.move_by(0.0, -self.leading);
                self.show(operands.get(2..).unwrap_or_default(), font);
            }
            "TJ" => {
                let items = operands.first().and_then(|items| items.as_array().ok());
                self.show(items.map_or(&[], Vec::as_slice), font);
            }
            _ => {}
        }
    }

    fn move_to(&mut self, position: (f32, f32), scale: f32) {
        self.line = position;
        self.scale = scale;
        self.has_moved = true;
    }

    fn move_by(&mut self, right: f32, up: f32) {
        // A move by nothing, as with a leading that was never set, still means a new line.
        let up = if right == 0.0 && up == 0.0 { -self.size } else { up };
        self.move_to((self.line.0 + right * self.scale, self.line.1 + up * self.scale), self.scale);
    }

    /// Appends strings, and spaces for large gaps between them.
    fn show(&mut self, items: &[Object], font: Option<&PdfFont>) {
        self.separate();
        let em = self.size * self.scale;
        let mut right = self.end.map_or(self.line.0, |end| end.0);
        for item in items {
            if let Ok(bytes) = item.as_str() {
                // Widths are not read: half the size is near enough to tell words apart.
                let count = match font {
                    Some(PdfFont::Map(map)) => map.decode(bytes, &mut self.text),
                    Some(PdfFont::Encoding(encoding)) => encoding.decode(bytes, &mut self.text),
                    None => 0,
                };
                let count = u16::try_from(count).map_or(f32::from(u16::MAX), f32::from);
                right += 0.5 * em * count;
            } else if let Ok(back) = item.as_float() {
                right -= back / 1000.0 * em;
                if back < -200.0 && !self.text.ends_with([' ', '\n']) {
                    self.text.push(' ');
                }
            }
        }
        self.end = Some((right, self.line.1));
    }

    /// Appends a line break or a space if the position requires it.
    fn separate(&mut self) {
        let Some((right, height)) = self.end.filter(|_| self.has_moved) else {
            self.end.get_or_insert(self.line);
            self.has_moved = false;
            return;
        };
        let em = self.size * self.scale;
        if (self.line.1 - height).abs() > 0.3 * em.abs() {
            self.text.push('\n');
        } else if (self.line.0 - right).abs() > 0.35 * em.abs() && !self.text.ends_with([' ', '\n'])
        {
            self.text.push(' ');
        }
        self.end = Some(self.line);
        self.has_moved = false;
    }
}

fn number_at(operands: &[Object], index: usize) -> f32 {
    operands.get(index).and_then(|operand| operand.as_float().ok()).unwrap_or_default()
}

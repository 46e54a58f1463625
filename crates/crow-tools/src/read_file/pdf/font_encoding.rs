//! The tables of fonts without a table of their own: an encoding by its name, and the glyphs that differ from it.

use encoding_rs::UTF_16BE;
use lopdf::{Dictionary, Document, Object};

use super::glyph_names::text_of_glyph;

/// First code in the tables below, which have one character for each code; `\u{fffd}` where there is none.
const FIRST_CODE: u8 = b' ';
/// Most entries of a list of differences that are read: there are 256 codes.
const MAX_DIFFERENCES: usize = 1024;

/// `StandardEncoding`.
const STANDARD: &str = concat!(
    " !\"#$%&’()*+,-./",
    "0123456789:;<=>?",
    "@ABCDEFGHIJKLMNO",
    "PQRSTUVWXYZ[\\]^_",
    "‘abcdefghijklmno",
    "pqrstuvwxyz{|}~�",
    "����������������",
    "����������������",
    "�¡¢£⁄¥ƒ§¤'“«‹›ﬁﬂ",
    "�–†‡·�¶•‚„”»…‰�¿",
    "�`´ˆ˜¯˘˙¨�˚¸�˝˛ˇ",
    "—���������������",
    "�Æ�ª����ŁØŒº����",
    "�æ���ı��łøœß����",
);
/// `MacRomanEncoding`.
const MAC_ROMAN: &str = concat!(
    " !\"#$%&'()*+,-./",
    "0123456789:;<=>?",
    "@ABCDEFGHIJKLMNO",
    "PQRSTUVWXYZ[\\]^_",
    "`abcdefghijklmno",
    "pqrstuvwxyz{|}~�",
    "ÄÅÇÉÑÖÜáàâäãåçéè",
    "êëíìîïñóòôöõúùûü",
    "†°¢£§•¶ß®©™´¨≠ÆØ",
    "∞±≤≥¥µ∂∑∏π∫ªºΩæø",
    "¿¡¬√ƒ≈∆«»… ÀÃÕŒœ",
    "–—“”‘’÷◊ÿŸ⁄¤‹›ﬁﬂ",
    "‡·‚„‰ÂÊÁËÈÍÎÏÌÓÔ",
    "�ÒÚÛÙıˆ˜¯˘˙˚¸˝˛ˇ",
);
/// `WinAnsiEncoding`.
const WIN_ANSI: &str = concat!(
    " !\"#$%&'()*+,-./",
    "0123456789:;<=>?",
    "@ABCDEFGHIJKLMNO",
    "PQRSTUVWXYZ[\\]^_",
    "`abcdefghijklmno",
    "pqrstuvwxyz{|}~•",
    "€•‚ƒ„…†‡ˆ‰Š‹Œ•Ž•",
    "•‘’“”•–—˜™š›œ•žŸ",
    " ¡¢£¤¥¦§¨©ª«¬-®¯",
    "°±²³´µ¶·¸¹º»¼½¾¿",
    "ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏ",
    "ÐÑÒÓÔÕÖ×ØÙÚÛÜÝÞß",
    "àáâãäåæçèéêëìíîï",
    "ðñòóôõö÷øùúûüýþÿ",
);
/// `MacExpertEncoding`.
const MAC_EXPERT: &str = concat!(
    " !�¢$�&´⁽⁾‥․,-.⁄",
    "0123456789:;���?",
    "����ð��¼½¾⅛⅜⅝⅞⅓⅔",
    "������ﬀﬁﬂﬃﬄ₍�₎��",
    "`abcdefghijklmno",
    "pqrstuvwxyz₡����",
    "�������áàâäãåçéè",
    "êëíìîïñóòôöõúùûü",
    "�⁸₄₃₆₈₇���₂�¨���",
    "₅���ý����þ�₉₀�æø",
    "¿₁�������¸������",
    "‒�����¡�ÿ�¹²³⁴⁵⁶",
    "⁷⁹⁰�������������",
    "����¯�ⁿ���������",
);
/// `PDFDocEncoding`.
const PDF_DOC: &str = concat!(
    " !\"#$%&'()*+,-./",
    "0123456789:;<=>?",
    "@ABCDEFGHIJKLMNO",
    "PQRSTUVWXYZ[\\]^_",
    "`abcdefghijklmno",
    "pqrstuvwxyz{|}~�",
    "•†‡…—–ƒ⁄‹›−‰„“”‘",
    "’‚™ﬁﬂŁŒŠŸŽıłœšž�",
    "€¡¢£¤¥¦§¨©ª«¬�®¯",
    "°±²³´µ¶·¸¹º»¼½¾¿",
    "ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏ",
    "ÐÑÒÓÔÕÖ×ØÙÚÛÜÝÞß",
    "àáâãäåæçèéêëìíîï",
    "ðñòóôõö÷øùúûüýþÿ",
);

/// How the codes of a font become text.
#[derive(Debug)]
pub(super) enum FontEncoding {
    /// Each byte is a code: its text, empty if it is not known.
    OneByte(Vec<String>),
    /// The bytes are UTF-16, the higher byte first.
    Utf16,
}

impl FontEncoding {
    /// Reads the encoding of a font. Returns `None` if its codes have no meaning without the program of the font.
    pub(super) fn of_font(document: &Document, font: &Dictionary) -> Option<Self> {
        let encoding = font.get_deref(b"Encoding", document).ok();
        match encoding {
            Some(Object::Name(name)) if is_utf16(name) => Some(Self::Utf16),
            Some(Object::Name(name)) => {
                table_of_name(name).map(|table| Self::OneByte(texts_of(table)))
            }
            Some(Object::Dictionary(encoding)) => {
                let base = encoding.get_deref(b"BaseEncoding", document).and_then(Object::as_name);
                let mut texts = texts_of(base.ok().and_then(table_of_name).unwrap_or(STANDARD));
                let differences = encoding.get_deref(b"Differences", document);
                if let Ok(differences) = differences.and_then(Object::as_array) {
                    apply_differences(&mut texts, differences);
                }
                Some(Self::OneByte(texts))
            }
            Some(_) | None => Some(Self::OneByte(texts_of(STANDARD))),
        }
    }

    /// Appends the text of codes to `text`. Returns the number of codes.
    pub(super) fn decode(&self, bytes: &[u8], text: &mut String) -> usize {
        match self {
            Self::OneByte(texts) => {
                let known = bytes.iter().filter_map(|code| texts.get(usize::from(*code)));
                text.extend(known.map(String::as_str));
                bytes.len()
            }
            Self::Utf16 => {
                text.push_str(&UTF_16BE.decode_without_bom_handling(bytes).0);
                bytes.len() / 2
            }
        }
    }
}

/// Returns true for the encodings of Chinese, Japanese and Korean fonts whose codes are characters.
fn is_utf16(name: &[u8]) -> bool {
    let contains = |part: &[u8]| name.windows(part.len()).any(|window| window == part);
    name.starts_with(b"Uni") && (contains(b"UCS2") || contains(b"UTF16"))
}

fn table_of_name(name: &[u8]) -> Option<&'static str> {
    match name {
        b"StandardEncoding" => Some(STANDARD),
        b"MacRomanEncoding" => Some(MAC_ROMAN),
        b"WinAnsiEncoding" => Some(WIN_ANSI),
        b"MacExpertEncoding" => Some(MAC_EXPERT),
        b"PDFDocEncoding" => Some(PDF_DOC),
        _ => None,
    }
}

/// Returns the texts of all codes.
fn texts_of(table: &str) -> Vec<String> {
    let before = (0..FIRST_CODE).map(|_| String::new());
    let known = table.chars().map(|character| match character {
        char::REPLACEMENT_CHARACTER => String::new(),
        character => character.to_string(),
    });
    before.chain(known).collect()
}

/// Replaces the texts of codes. A number is the code of the name that follows it. Names that say nothing are left out,
/// so that their codes keep their texts: bitmap fonts often number the glyphs of an ordinary encoding.
fn apply_differences(texts: &mut [String], differences: &[Object]) {
    let mut code = 0;
    for item in differences.iter().take(MAX_DIFFERENCES) {
        match item {
            Object::Integer(first) => code = usize::try_from(*first).unwrap_or(usize::MAX),
            Object::Name(name) => {
                if let (Some(text), Some(glyph)) = (texts.get_mut(code), text_of_glyph(name)) {
                    *text = glyph;
                }
                code = code.saturating_add(1);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use lopdf::dictionary;

    use super::*;

    fn decoded(encoding: Object, bytes: &[u8]) -> Option<String> {
        let font = dictionary! { "Type" => "Font", "Encoding" => encoding };
        let mut text = String::new();
        FontEncoding::of_font(&Document::new(), &font)?.decode(bytes, &mut text);
        Some(text)
    }

    #[test]
    fn tables_have_a_character_for_each_code() {
        for table in [STANDARD, MAC_ROMAN, WIN_ANSI, MAC_EXPERT, PDF_DOC] {
            assert_eq!(texts_of(table).len(), 256);
        }
    }

    #[test]
    fn bytes_are_decoded_by_the_name_of_the_encoding() {
        let of_name = |name: &str, bytes: &[u8]| decoded(Object::Name(name.into()), bytes);
        assert_eq!(of_name("WinAnsiEncoding", b"a\x80\xe4\x07").as_deref(), Some("a€ä"));
        assert_eq!(of_name("MacRomanEncoding", b"a\x8a").as_deref(), Some("aä"));
        assert_eq!(of_name("StandardEncoding", b"'\xae").as_deref(), Some("’ﬁ"));
        assert_eq!(of_name("UniJIS-UTF16-H", b"\x65\xe5\x67\x2c").as_deref(), Some("日本"));
        assert_eq!(of_name("Identity-H", b"\x00\x24"), None);
        assert_eq!(decoded(Object::Null, b"ab").as_deref(), Some("ab"));
    }

    #[test]
    fn differences_replace_the_texts_of_codes() {
        let differences = [
            Object::Integer(1),
            Object::Name("Euro".into()),
            Object::Name("afii10017".into()),
            Object::Integer(i64::from(b'x')),
            Object::Name("g17".into()),
            Object::Name("f_i".into()),
            Object::Integer(-5),
            Object::Name("a".into()),
            Object::Null,
        ];
        let encoding = dictionary! {
            "BaseEncoding" => "WinAnsiEncoding",
            "Differences" => differences.to_vec(),
        };
        assert_eq!(decoded(encoding.into(), b"\x01\x02xyz").as_deref(), Some("€Аxfiz"));
    }
}

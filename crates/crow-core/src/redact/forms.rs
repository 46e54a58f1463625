//! The forms in which a secret may be written.

use std::fmt::Write as _;

/// Minimum length of a secret, in bytes: redacting shorter texts would garble output.
pub(super) const SHORTEST: usize = 8;
/// Minimum length of a line of a multi-line secret that is searched for on its own.
const SHORTEST_LINE: usize = 20;
/// Maximum length of a secret that is searched for in encoded forms. Longer ones are searched for as they are, quoted
/// in JSON, and line by line: every byte of every form costs time before the first request.
const LONGEST_ENCODED: usize = 1024;
/// Line lengths of base64 in common programs.
const LINES: [usize; 2] = [76, 64];

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Returns a secret and its other forms: quoted in JSON or in a URL, as base64 alone or within longer base64, as
/// hexadecimal digits.
pub(super) fn forms(secret: &str) -> Vec<String> {
    let secret = secret.trim();
    if secret.len() < SHORTEST {
        return Vec::new();
    }
    let mut forms = vec![secret.to_owned()];
    let lines = secret.lines().map(str::trim);
    // Lines such as `-----BEGIN KEY-----` are the same in all private keys.
    let distinctive =
        lines.filter(|line| line.len() >= SHORTEST_LINE && !line.starts_with("-----"));
    forms.extend(distinctive.map(str::to_owned));
    forms.push(in_json(secret));
    if secret.len() <= LONGEST_ENCODED {
        forms.extend(in_address(secret));
        for alphabet in [STANDARD, URL_SAFE] {
            forms.extend((0..3).map(|before| within_base64(secret.as_bytes(), before, alphabet)));
            for text in [secret.to_owned(), format!("{secret}\n")] {
                forms.extend(broken_base64(text.as_bytes(), alphabet));
            }
        }
        forms.extend(hexadecimal(secret.as_bytes()));
    }
    forms.retain(|form| form.len() >= SHORTEST);
    forms
}

fn in_json(secret: &str) -> String {
    let quoted = serde_json::Value::from(secret).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

fn in_address(secret: &str) -> [String; 2] {
    let (mut upper, mut lower) = (String::new(), String::new());
    for byte in secret.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            upper.push(char::from(byte));
            lower.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(upper, "%{byte:02X}");
            let _ = write!(lower, "%{byte:02x}");
        }
    }
    [upper, lower]
}

fn hexadecimal(bytes: &[u8]) -> [String; 2] {
    let (mut upper, mut lower) = (String::new(), String::new());
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(upper, "{byte:02X}");
        let _ = write!(lower, "{byte:02x}");
    }
    [upper, lower]
}

/// Returns the characters that depend on the secret alone, if `before` bytes modulo 3 precede it.
fn within_base64(secret: &[u8], before: usize, alphabet: &[u8; 64]) -> String {
    let mut bytes = vec![0; before];
    bytes.extend_from_slice(secret);
    let encoded = base64(&bytes, alphabet);
    let (first, end) = ((8 * before).div_ceil(6), 8 * bytes.len() / 6);
    encoded[first..end].to_owned()
}

/// Returns the lines of a secret that was encoded alone and does not fit into one line.
fn broken_base64(secret: &[u8], alphabet: &[u8; 64]) -> Vec<String> {
    let end = 8 * secret.len() / 6;
    let encoded = base64(secret, alphabet);
    let encoded = &encoded[..end];
    let lengths = LINES.into_iter().filter(|length| encoded.len() > *length);
    lengths
        .flat_map(|length| encoded.as_bytes().chunks(length))
        .map(|line| String::from_utf8_lossy(line).into_owned())
        .collect()
}

/// Encodes as base64 without padding.
fn base64(bytes: &[u8], alphabet: &[u8; 64]) -> String {
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let byte = |position: usize| u32::from(chunk.get(position).copied().unwrap_or_default());
        let group = byte(0) << 16 | byte(1) << 8 | byte(2);
        for position in 0..=chunk.len() {
            let index = group >> (18 - 6 * position) & 63;
            text.push(char::from(alphabet[index as usize]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_matches_the_standard_encoding() {
        for (bytes, expected) in
            [("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(bytes.as_bytes(), STANDARD), expected);
        }
        assert_eq!(base64(&[0xfb, 0xff], STANDARD), "+/8");
        assert_eq!(base64(&[0xfb, 0xff], URL_SAFE), "-_8");
    }

    #[test]
    fn a_short_secret_has_no_forms() {
        assert_eq!(forms(" secret \n"), Vec::<String>::new());
        assert_eq!(forms("12345678")[0], "12345678");
    }
}

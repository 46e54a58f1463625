//! Pictures for models that can see.

use crow_core::message::Image;

/// Largest picture that providers accept, in bytes.
pub(super) const MAX_BYTES: usize = 5 * 1024 * 1024;

/// Makes a picture from the bytes of a file.
pub(super) fn image(media_type: &str, bytes: &[u8]) -> Image {
    Image { media_type: media_type.to_owned(), data: base64(bytes) }
}

/// Encodes bytes in standard base64 with padding.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for position in 0..4 {
            let index = (bits >> (18 - 6 * position)) & 63;
            let letter = ALPHABET.get(index as usize).filter(|_| position <= chunk.len());
            text.push(char::from(*letter.unwrap_or(&b'=')));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_agrees_with_the_vectors_of_its_standard() {
        for (plain, encoded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
        assert_eq!(base64(&[0xFB, 0xFF]), "+/8=");
    }
}

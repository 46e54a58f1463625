//! `read_file` on pictures, most of them larger than a model can use.

use std::io::Cursor;

use crow_core::{model::Abilities, tool::ToolResult};
use image::{
    DynamicImage, ImageFormat, Rgb, RgbImage, Rgba, RgbaImage,
    codecs::{gif::GifEncoder, jpeg::JpegEncoder},
};
use serde_json::json;

use crate::bench::Bench;

fn bench() -> Bench {
    Bench::with_abilities(Abilities { vision: true, ..Abilities::default() })
}

/// Returns a picture with many colours.
fn photo(width: u32, height: u32) -> RgbImage {
    RgbImage::from_fn(width, height, |x, y| {
        let noise = x.wrapping_mul(2_654_435_761).wrapping_add(y.wrapping_mul(40_503)) >> 7;
        Rgb([x % 256, y % 256, noise % 256].map(|part| u8::try_from(part).unwrap()))
    })
}

fn encoded(picture: impl Into<DynamicImage>, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    picture.into().write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

async fn read(bytes: &[u8]) -> ToolResult {
    let bench = bench();
    bench.write("a", bytes);
    bench.run("read_file", json!({"path": "a"})).await
}

/// Returns the picture that the result sends to the model.
fn sent_picture(result: &ToolResult) -> DynamicImage {
    let bytes = base64(&result.images.first().unwrap().data);
    image::load_from_memory(&bytes).unwrap()
}

fn base64(text: &str) -> Vec<u8> {
    let value = |letter: u8| match letter {
        b'A'..=b'Z' => u32::from(letter - b'A'),
        b'a'..=b'z' => u32::from(letter - b'a') + 26,
        b'0'..=b'9' => u32::from(letter - b'0') + 52,
        b'+' => 62,
        _ => 63,
    };
    let letters: Vec<u8> = text.bytes().filter(|letter| *letter != b'=').collect();
    let decode = |chunk: &[u8]| {
        let bits =
            (0..4).fold(0, |bits, index| bits << 6 | chunk.get(index).map_or(0, |l| value(*l)));
        bits.to_be_bytes().into_iter().skip(1).take(chunk.len() - 1).collect::<Vec<u8>>()
    };
    letters.chunks(4).flat_map(decode).collect()
}

#[tokio::test]
async fn a_small_picture_is_sent_byte_for_byte() {
    for format in [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Gif, ImageFormat::WebP] {
        let bytes = encoded(photo(40, 30), format);
        let result = read(&bytes).await;
        assert_eq!(base64(&result.images[0].data), bytes, "{format:?}");
        assert_eq!(result.images[0].media_type, format.to_mime_type());
        assert!(!result.output.contains("sent as"), "{}", result.output);
    }
}

#[tokio::test]
async fn a_large_picture_of_each_format_is_scaled_down_and_both_sizes_are_reported() {
    for format in [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::WebP] {
        let result = read(&encoded(photo(1600, 100), format)).await;
        let picture = sent_picture(&result);
        assert_eq!((picture.width(), picture.height()), (1568, 98), "{}", result.output);
        assert_eq!(result.images[0].media_type, "image/jpeg");
        let text = result.output.split_once("bytes, ").unwrap().1;
        assert!(text.starts_with("1600×100; sent as image/jpeg, "), "{}", result.output);
        assert!(text.ends_with("bytes, 1568×98"), "{}", result.output);
    }
}

#[tokio::test]
async fn transparency_and_few_colours_are_kept_without_loss() {
    let transparent =
        RgbaImage::from_fn(1600, 100, |x, _| Rgba([10, 20, 30, if x < 1000 { 0 } else { 255 }]));
    let result = read(&encoded(transparent, ImageFormat::Png)).await;
    assert_eq!(result.images[0].media_type, "image/png");
    assert_eq!(sent_picture(&result).to_rgba8().get_pixel(3, 3).0[3], 0);
    let drawing =
        RgbImage::from_fn(100, 2000, |_, y| Rgb(if y % 50 < 25 { [0; 3] } else { [255; 3] }));
    let result = read(&encoded(drawing, ImageFormat::Png)).await;
    assert_eq!(result.images[0].media_type, "image/png");
}

#[tokio::test]
async fn a_picture_with_too_many_bytes_is_re_encoded_at_the_same_size() {
    let noise = RgbImage::from_fn(1500, 1500, |x, y| {
        let mut seed = u64::from(x) << 32 | u64::from(y);
        seed = (seed ^ 0x9E37_79B9_7F4A_7C15).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let [a, b, c, ..] = (seed ^ seed >> 29).wrapping_mul(0x94D0_49BB_1331_11EB).to_be_bytes();
        Rgb([a, b, c])
    });
    let bytes = encoded(noise, ImageFormat::Png);
    assert!(bytes.len() > 5 << 20);
    let result = read(&bytes).await;
    assert!(result.output.ends_with("bytes, 1500×1500"), "{}", result.output);
    assert!(result.images[0].data.len() < 5 << 20);
}

#[tokio::test]
async fn the_first_frame_of_a_large_animation_is_sent_and_the_result_says_so() {
    let mut bytes = Vec::new();
    let mut encoder = GifEncoder::new(&mut bytes);
    for colour in [[255, 0, 0, 255], [0, 0, 255, 255]] {
        let frame = RgbaImage::from_pixel(1600, 10, Rgba(colour));
        encoder.encode_frame(image::Frame::new(frame)).unwrap();
    }
    drop(encoder);
    let result = read(&bytes).await;
    assert!(
        result.output.ends_with("1568×10, the first frame of an animation"),
        "{}",
        result.output
    );
    let [red, _, blue] = sent_picture(&result).to_rgb8().get_pixel(5, 5).0;
    assert!(red > 200 && blue < 50);
}

#[tokio::test]
async fn the_exif_orientation_of_a_photo_is_applied() {
    let mut exif = b"MM\0\x2a\0\0\0\x08\0\x01".to_vec();
    exif.extend(b"\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0");
    let mut bytes = Vec::new();
    let mut encoder = JpegEncoder::new(&mut bytes);
    image::ImageEncoder::set_exif_metadata(&mut encoder, exif).unwrap();
    photo(1600, 100).write_with_encoder(encoder).unwrap();
    let result = read(&bytes).await;
    assert!(result.output.ends_with("98×1568"), "{}", result.output);
}

/// Returns a PNG that declares a size but has almost no data.
fn bomb(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut header = b"IHDR".to_vec();
    header.extend([width.to_be_bytes(), height.to_be_bytes()].concat());
    header.extend([8, 6, 0, 0, 0]);
    for chunk in [header, b"IDATx\x9c\x03\0\0\0\0\x01".to_vec(), b"IEND".to_vec()] {
        bytes.extend(u32::try_from(chunk.len() - 4).unwrap().to_be_bytes());
        bytes.extend(&chunk);
        bytes.extend(checksum(&chunk).to_be_bytes());
    }
    bytes
}

fn checksum(bytes: &[u8]) -> u32 {
    let step = |sum: u32, _| if sum & 1 == 1 { sum >> 1 ^ 0xEDB8_8320 } else { sum >> 1 };
    !bytes.iter().fold(!0, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), step))
}

#[tokio::test]
async fn a_picture_that_declares_a_huge_size_is_refused_before_it_is_decoded() {
    for (width, height) in [(50_000, 50_000), (u32::MAX >> 1, 1 << 20)] {
        let result = read(&bomb(width, height)).await;
        assert!(result.is_error() || result.images[0].data.len() < 1000, "{}", result.output);
        assert!(
            result.output.contains("million are decoded") || !result.is_error(),
            "{}",
            result.output
        );
    }
}

#[tokio::test]
async fn a_large_picture_that_is_cut_off_is_refused_or_shown_as_far_as_it_goes() {
    for format in [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Gif, ImageFormat::WebP] {
        let whole = encoded(photo(1700, 40), format);
        for part in 1..8 {
            let result = read(&whole[..whole.len() * part / 8]).await;
            let is_refused = result.output.contains("cannot be shown: it cannot be decoded");
            assert!(is_refused || !result.images.is_empty(), "{format:?}: {}", result.output);
        }
    }
}

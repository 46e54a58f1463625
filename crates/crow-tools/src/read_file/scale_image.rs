//! Scaling of pictures that are too large for a model.

use std::{
    collections::HashSet,
    io::Cursor,
    panic::{AssertUnwindSafe, catch_unwind},
};

use image::{
    AnimationDecoder as _, DynamicImage, ImageDecoder as _, ImageFormat, ImageReader, Limits, Rgb,
    RgbImage,
    codecs::{gif::GifDecoder, jpeg::JpegEncoder, png::PngEncoder, webp::WebPDecoder},
    imageops::FilterType,
    metadata::Orientation,
};
use tokio_util::sync::CancellationToken;

use super::tool::MAX_IMAGE_BYTES;

/// Longest side in pixels of which models make use: providers scale larger pictures down themselves.
const MAX_SIDE: u32 = 1568;
/// Most pixels of a picture that is decoded, which limits memory and time.
const MAX_PIXELS: u64 = 64 << 20;
/// Most bytes that a decoder may allocate.
const MAX_ALLOCATION: u64 = 512 << 20;
/// Most colours of a picture that counts as a drawing or a screenshot, which JPEG would blur.
const FEW_COLOURS: usize = 4096;
const JPEG_QUALITY: u8 = 85;

/// A picture that was scaled down.
#[derive(Debug)]
pub(super) struct ScaledImage {
    pub(super) media_type: &'static str,
    pub(super) bytes: Vec<u8>,
    /// Width and height in the file.
    pub(super) original: (u32, u32),
    /// Width and height after scaling.
    pub(super) size: (u32, u32),
    /// True if the file is an animation, of which this is the first frame.
    pub(super) is_first_frame: bool,
}

/// A reason for which a picture was not scaled down.
#[derive(Debug, thiserror::Error)]
pub(super) enum ScaleError {
    #[error("it has {width}×{height} pixels, and at most {} million are decoded", MAX_PIXELS >> 20)]
    TooManyPixels { width: u32, height: u32 },
    #[error("it cannot be decoded: {0}")]
    Broken(#[from] image::ImageError),
    #[error("it cannot be decoded: its data makes the decoder fail")]
    Panicked,
    #[error("the call was cancelled")]
    Cancelled,
}

/// Scales a picture down. Returns `None` if it can be sent as it is.
pub(super) fn scale_down(
    media_type: &str,
    bytes: &[u8],
    cancellation: &CancellationToken,
) -> Result<Option<ScaledImage>, ScaleError> {
    let Some(format) = ImageFormat::from_mime_type(media_type) else { return Ok(None) };
    // Files may come from strangers: a panic in a decoder must not end the session.
    catch_unwind(AssertUnwindSafe(|| scale(format, bytes, cancellation)))
        .unwrap_or(Err(ScaleError::Panicked))
}

fn scale(
    format: ImageFormat,
    bytes: &[u8],
    cancellation: &CancellationToken,
) -> Result<Option<ScaledImage>, ScaleError> {
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    reader.limits(limits());
    let mut decoder = match reader.into_decoder() {
        Ok(decoder) => decoder,
        // The provider may understand what this decoder does not.
        Err(_) if bytes.len() <= MAX_IMAGE_BYTES => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    // Decide by the header alone.
    let (width, height) = decoder.dimensions();
    if width.max(height) <= MAX_SIDE && bytes.len() <= MAX_IMAGE_BYTES {
        return Ok(None);
    }
    if u64::from(width) * u64::from(height) > MAX_PIXELS {
        return Err(ScaleError::TooManyPixels { width, height });
    }
    // Decode, scale and encode.
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let picture = DynamicImage::from_decoder(decoder)?;
    check(cancellation)?;
    let is_lossless = picture.color().has_alpha() || has_few_colours(&picture);
    let mut small = shrunk(picture);
    small.apply_orientation(orientation);
    check(cancellation)?;
    let (media_type, encoded) = encoded(&small, is_lossless)?;
    let size = (small.width(), small.height());
    let is_first_frame = is_animated(format, bytes);
    Ok(Some(ScaledImage {
        media_type,
        bytes: encoded,
        original: (width, height),
        size,
        is_first_frame,
    }))
}

fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.max_alloc = Some(MAX_ALLOCATION);
    limits
}

fn check(cancellation: &CancellationToken) -> Result<(), ScaleError> {
    if cancellation.is_cancelled() { Err(ScaleError::Cancelled) } else { Ok(()) }
}

fn has_few_colours(picture: &DynamicImage) -> bool {
    let mut colours = HashSet::new();
    let mut is_new = |Rgb(colour): &Rgb<u8>| colours.insert(*colour);
    picture.to_rgb8().pixels().filter(|pixel| is_new(pixel)).nth(FEW_COLOURS).is_none()
}

/// Scales down to the longest side. A very large picture is first reduced by averages, because the good filter needs
/// much memory.
fn shrunk(picture: DynamicImage) -> DynamicImage {
    let longest = picture.width().max(picture.height());
    let coarse = 2 * MAX_SIDE;
    let picture = if longest > coarse { picture.thumbnail(coarse, coarse) } else { picture };
    if longest > MAX_SIDE {
        picture.resize(MAX_SIDE, MAX_SIDE, FilterType::Lanczos3)
    } else {
        picture
    }
}

fn encoded(
    picture: &DynamicImage,
    is_lossless: bool,
) -> Result<(&'static str, Vec<u8>), ScaleError> {
    let mut bytes = Vec::new();
    if is_lossless {
        let encoder = PngEncoder::new(&mut bytes);
        if picture.color().has_alpha() {
            picture.to_rgba8().write_with_encoder(encoder)?;
        } else {
            picture.to_rgb8().write_with_encoder(encoder)?;
        }
        if bytes.len() <= MAX_IMAGE_BYTES {
            return Ok(("image/png", bytes));
        }
        bytes.clear();
    }
    on_white(picture)
        .write_with_encoder(JpegEncoder::new_with_quality(&mut bytes, JPEG_QUALITY))?;
    Ok(("image/jpeg", bytes))
}

/// Puts a picture on white, because JPEG has no transparency.
fn on_white(picture: &DynamicImage) -> RgbImage {
    if !picture.color().has_alpha() {
        return picture.to_rgb8();
    }
    let source = picture.to_rgba8();
    let mut flat = RgbImage::new(source.width(), source.height());
    for (to, from) in flat.pixels_mut().zip(source.pixels()) {
        let [red, green, blue, alpha] = from.0.map(u32::from);
        let mixed = [red, green, blue].map(|part| (part * alpha + 255 * (255 - alpha)) / 255);
        to.0 =
            mixed.map(|part| u8::try_from(part).expect("invariant: a mean of two bytes is a byte"));
    }
    flat
}

fn is_animated(format: ImageFormat, bytes: &[u8]) -> bool {
    let reader = Cursor::new(bytes);
    if format == ImageFormat::Gif {
        let Ok(mut decoder) = GifDecoder::new(reader) else { return false };
        decoder.set_limits(limits()).is_ok() && decoder.into_frames().nth(1).is_some()
    } else if format == ImageFormat::WebP {
        WebPDecoder::new(reader).is_ok_and(|decoder| decoder.has_animation())
    } else {
        false
    }
}

//! Conversion of the results of servers to results of tools.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use crow_core::{message::Image, tool::ToolResult};
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

use crate::text;

/// Maximum number of images in a result.
const MOST_IMAGES: usize = 8;
/// Maximum size of an image in base64 bytes. Providers accept at most 5 MB.
const LARGEST_IMAGE: usize = 5 * 1024 * 1024;
/// Maximum length of a name, address or type quoted in a text.
const LONGEST_WORD: usize = 300;

/// Converts a server's answer to a result. The pipeline cuts a long output and stores the full one.
pub(crate) fn to_result(answer: CallToolResult) -> ToolResult {
    let mut parts: Vec<String> = Vec::new();
    let mut images = Vec::new();
    for block in answer.content {
        parts.extend(block_text(block, &mut images));
    }
    if parts.is_empty() && images.is_empty() {
        // Structured content repeats the text, so it is used only without other content.
        parts.extend(answer.structured_content.map(|content| text::sanitise(&content.to_string())));
    }
    let (output, images) =
        to_text_and_images(parts.join("\n"), images, "The tool returned nothing.");
    let mut result = if answer.is_error == Some(true) {
        ToolResult::failure(output)
    } else {
        ToolResult::success(output)
    };
    result.images = images;
    result
}

/// Returns the text, or `empty` if there is neither text nor an image.
pub(crate) fn to_text_and_images(
    text: String,
    images: Vec<Image>,
    empty: &str,
) -> (String, Vec<Image>) {
    let is_empty = text.trim().is_empty() && images.is_empty();
    (if is_empty { empty.to_owned() } else { text }, images)
}

/// Converts a block of a prompt to text; images that providers accept are added to `images`.
pub(crate) fn block_text(block: ContentBlock, images: &mut Vec<Image>) -> Option<String> {
    let inline = |text: &str| text::one_line(text, LONGEST_WORD);
    Some(match block {
        ContentBlock::Text(content) => text::sanitise(&content.text),
        ContentBlock::Image(image) => return take_image(&image.mime_type, image.data, images),
        ContentBlock::Audio(audio) => {
            format!(
                "[sound of type {}, {} bytes in base64, left out]",
                inline(&audio.mime_type),
                audio.data.len()
            )
        }
        ContentBlock::Resource(resource) => {
            let ResourceContents::TextResourceContents { uri, .. } = &resource.resource else {
                return resource_text(resource.resource, images);
            };
            let uri = inline(uri);
            let text = resource_text(resource.resource, images)?;
            format!("[resource {uri}]\n{text}")
        }
        ContentBlock::ResourceLink(link) => {
            let about = link.description.as_deref().map(inline).filter(|text| !text.is_empty());
            let about = about.map(|text| format!(": {text}")).unwrap_or_default();
            format!("[link to the resource {} at {}{about}]", inline(&link.name), inline(&link.uri))
        }
        _ => "[content of an unknown kind, left out]".to_owned(),
    })
}

/// Converts the contents of a resource to text; images that providers accept are added to `images`.
pub(crate) fn resource_text(contents: ResourceContents, images: &mut Vec<Image>) -> Option<String> {
    let inline = |text: &str| text::one_line(text, LONGEST_WORD);
    Some(match contents {
        ResourceContents::TextResourceContents { text, .. } => text::sanitise(&text),
        ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
            let kind = mime_type.unwrap_or_default();
            if kind.starts_with("image/") {
                return take_image(&kind, blob, images);
            }
            let kind = inline(&kind);
            format!(
                "[resource {} of type {kind}, {} bytes in base64, left out]",
                inline(&uri),
                blob.len()
            )
        }
        _ => "[a resource of an unknown kind, left out]".to_owned(),
    })
}

/// Adds an image that providers accept, labelled with the type of its content; otherwise returns a text that it is
/// omitted.
///
/// Providers refuse a request with a wrongly labelled image, and the image would stay in the history.
fn take_image(label: &str, data: String, images: &mut Vec<Image>) -> Option<String> {
    let why = match detected_type(&data) {
        Ok(_) if images.len() == MOST_IMAGES => "there are too many",
        Ok(media_type) => {
            images.push(Image { media_type: media_type.to_owned(), data });
            return None;
        }
        Err(why) => why,
    };
    let shown = text::one_line(label, LONGEST_WORD);
    Some(format!("[picture of type {shown}, {} bytes in base64, left out: {why}]", data.len()))
}

/// Detects the media type of an image by its content, or returns the reason why it is omitted.
fn detected_type(data: &str) -> Result<&'static str, &'static str> {
    if data.len() > LARGEST_IMAGE {
        return Err("it is too large");
    }
    let bytes = STANDARD.decode(data).map_err(|_| "it is broken")?;
    Image::media_type_of(&bytes).ok_or("it is neither PNG, JPEG, GIF nor WebP")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// First bytes of a PNG file, in base64.
    const PNG: &str = "iVBORw0KGgo=";

    fn result(answer: Value) -> ToolResult {
        to_result(serde_json::from_value(answer).unwrap())
    }

    #[test]
    fn every_kind_of_content_is_shown_or_named() {
        let result = result(json!({"content": [
            {"type": "text", "text": "a\u{1b}[31mb"},
            {"type": "image", "data": PNG, "mimeType": "image/png"},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "image", "data": "AAAA", "mimeType": "image/svg+xml"},
            {"type": "image", "data": "no base64!", "mimeType": "image/png"},
            {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "file:///x", "text": "inside"}},
            {"type": "resource", "resource": {"uri": "file:///y", "mimeType": "application/pdf", "blob": "AAAA"}},
            {"type": "resource_link", "uri": "http://z", "name": "Z", "description": "about"},
        ]}));
        insta::assert_snapshot!(result.output);
        assert_eq!((result.images.len(), result.is_error()), (1, false));
    }

    #[test]
    fn tool_errors_fail_and_structured_content_replaces_missing_text() {
        let failed =
            result(json!({"content": [{"type": "text", "text": "no such city"}], "isError": true}));
        assert_eq!((failed.is_error(), failed.error.as_deref()), (true, Some("no such city")));
        let structured = result(json!({"content": [], "structuredContent": {"a": 1}}));
        assert_eq!(structured.output, r#"{"a":1}"#);
        assert_eq!(result(json!({"content": []})).output, "The tool returned nothing.");
    }

    #[test]
    fn images_get_the_media_type_of_their_content() {
        for (data, expected) in
            [(PNG, "image/png"), ("/9j/4A==", "image/jpeg"), ("R0lGODlh", "image/gif")]
        {
            let resource = json!({"uri": "file:///x", "mimeType": "image/jpg", "blob": data});
            let result = result(json!({"content": [
                {"type": "image", "data": data, "mimeType": "image/webp"},
                {"type": "resource", "resource": resource},
            ]}));
            let types = result.images.iter().map(|image| image.media_type.as_str());
            assert_eq!(types.collect::<Vec<_>>(), [expected, expected], "{}", result.output);
        }
    }

    #[test]
    fn images_are_limited_in_number_and_size() {
        let image = json!({"type": "image", "data": PNG, "mimeType": "image/png"});
        let many = result(json!({"content": vec![image; 20]}));
        assert_eq!(many.images.len(), MOST_IMAGES);
        let large = format!("{}{}", PNG.replace('=', "A"), "A".repeat(LARGEST_IMAGE));
        let large = json!({"type": "image", "data": large, "mimeType": "image/png"});
        assert_eq!(result(json!({"content": [large]})).images.len(), 0);
    }
}

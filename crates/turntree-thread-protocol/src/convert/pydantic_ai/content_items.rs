//! The items of a user prompt to content parts, and back. Decision 15.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::field_layout::{Expected, FieldLayouts, class_name};
use super::model::{Object, Value};
use super::read::read_object;
use super::roundtrip_metadata::{ItemMetadata, ObjectWriter};
use super::validation;
use super::write::{object_to_json, to_json};
use crate::action::UserMessageAction;
use crate::content::{
    Attachment, AudioContent, ContentPart, FileContent, ImageContent, MessageContent, TextContent,
    VideoContent,
};
use turntree_core::message::files::sniff_base64;

/// The items of a user prompt as content parts.
#[derive(Debug, Default)]
pub(super) struct EncodedItems {
    /// The parts.
    pub parts: Vec<ContentPart>,
    /// The JSON of `items`: fields that the parts do not hold; `None` if there are none.
    pub diff: Option<String>,
    /// True if the message can only be preserved verbatim.
    pub irregular: bool,
}

/// The fields of a media content part.
struct MediaFields<'p> {
    url: Option<&'p String>,
    base64: Option<&'p String>,
    file_id: Option<&'p String>,
    provider: Option<&'p String>,
    mime: Option<&'p String>,
    name: Option<&'p String>,
    url_class: &'static str,
}

fn media(part: &ContentPart) -> Option<MediaFields<'_>> {
    macro_rules! media {
        ($part:expr, $class:literal) => {
            Some(MediaFields {
                url: $part.url.as_ref(),
                base64: $part.base64.as_ref(),
                file_id: $part.file_id.as_ref(),
                provider: $part.provider.as_ref(),
                mime: $part.media_type.as_ref(),
                name: $part.name.as_ref(),
                url_class: $class,
            })
        };
    }
    match part {
        ContentPart::Image(part) => media!(part, "image-url"),
        ContentPart::Audio(part) => media!(part, "audio-url"),
        ContentPart::Video(part) => media!(part, "video-url"),
        ContentPart::File(part) => media!(part, "document-url"),
        ContentPart::Text(_) | ContentPart::Unknown(_) => None,
    }
}

/// The type of media.
#[derive(Clone, Copy)]
enum MediaKind {
    Image,
    Audio,
    Video,
    File,
}

impl MediaKind {
    fn of(media_type: &str) -> Self {
        match media_type.split('/').next() {
            Some("image") => Self::Image,
            Some("audio") => Self::Audio,
            Some("video") => Self::Video,
            _ => Self::File,
        }
    }

    /// Creates a content part of this type.
    fn part(self, source: MediaSource, media_type: Option<String>) -> ContentPart {
        let MediaSource { url, base64, file_id, provider } = source;
        macro_rules! part {
            ($variant:ident($class:ident)) => {
                ContentPart::$variant($class {
                    url,
                    base64,
                    file_id,
                    provider,
                    media_type,
                    ..$class::default()
                })
            };
        }
        match self {
            Self::Image => part!(Image(ImageContent)),
            Self::Audio => part!(Audio(AudioContent)),
            Self::Video => part!(Video(VideoContent)),
            Self::File => part!(File(FileContent)),
        }
    }
}

/// The location of media data.
#[derive(Default)]
struct MediaSource {
    url: Option<String>,
    base64: Option<String>,
    file_id: Option<String>,
    provider: Option<String>,
}

/// The file providers that Pydantic AI accepts.
const FILE_PROVIDERS: &[&str] =
    &["anthropic", "openai", "google", "google-cloud", "google-gla", "google-vertex", "bedrock", "xai"];

/// The class of a content part's item if the metadata does not name one: `str` for parts without an item class.
fn default_class(part: &ContentPart) -> &'static str {
    match media(part) {
        Some(media) if media.base64.is_some_and(|data| validation::is_base64(data)) => "binary",
        Some(media)
            if media.file_id.is_some() && media.provider.is_some_and(|provider| is_keeper(provider)) =>
        {
            "uploaded-file"
        }
        Some(MediaFields { url: Some(_), url_class, .. }) => url_class,
        _ => "str",
    }
}

fn is_keeper(provider: &str) -> bool {
    FILE_PROVIDERS.contains(&provider)
}

/// Encodes the list of a user prompt; `None` for other values.
pub(super) fn encode<'a>(content: &Value<'a>, layouts: &mut FieldLayouts<'a>) -> Option<EncodedItems> {
    let mut encoded = EncodedItems::default();
    let mut diff = String::from("[");
    let mut user_items = false;
    let mut item = |encoded: &mut EncodedItems, value: &Value<'a>, object: Option<Object<'a>>| {
        let entry = encode_item(encoded, value, object, layouts);
        if diff.len() > 1 {
            diff.push(',');
        }
        user_items |= entry != "null";
        diff.push_str(&entry);
    };
    match content {
        Value::Raw(raw) => {
            for value in serde_json::from_str::<Vec<&'a RawValue>>(raw.get()).ok()? {
                item(&mut encoded, &Value::Raw(value), read_object(value.get()));
            }
        }
        Value::List(values) => {
            for value in values {
                let object = match value {
                    Value::Object(object) => Some(object.clone()),
                    Value::Raw(raw) => read_object(raw.get()),
                    _ => None,
                };
                item(&mut encoded, value, object);
            }
        }
        _ => return None,
    }
    diff.push(']');
    encoded.diff = user_items.then_some(diff);
    Some(encoded)
}

/// Appends the content part of an item and returns its entry of `items`.
fn encode_item<'a>(
    encoded: &mut EncodedItems,
    value: &Value<'a>,
    object: Option<Object<'a>>,
    layouts: &mut FieldLayouts<'a>,
) -> Cow<'static, str> {
    if let Some(text) = value.as_text() {
        encoded.parts.push(ContentPart::text(text));
        return Cow::Borrowed("null");
    }
    let verbatim = |json: &str| {
        let mut writer = ObjectWriter::default();
        writer.json("raw", json);
        Cow::Owned(writer.finish())
    };
    let Some(object) = object else { return verbatim(&to_json(value)) };
    match encode_object(&object, layouts) {
        None => verbatim(&object_to_json(&object)),
        Some((part, Some(entry))) => {
            encoded.parts.push(part);
            entry
        }
        Some((_, None)) => {
            encoded.irregular = true;
            Cow::Borrowed("null")
        }
    }
}

/// Encodes the content of a file part; returns the content part and its entry of `items`. `None` if there is no file.
pub(super) fn encode_file<'a>(
    value: &Value<'a>,
    layouts: &mut FieldLayouts<'a>,
) -> Option<(ContentPart, Option<Cow<'static, str>>)> {
    let read;
    let object = match value {
        Value::Object(object) => object,
        Value::Raw(raw) => {
            read = read_object(raw.get())?;
            &read
        }
        _ => return None,
    };
    if object.text("kind").as_deref() != Some("binary") {
        return None;
    }
    encode_object(object, layouts)
}

/// Encodes an item. Returns no content part if it has none, and no entry if the message can only be preserved verbatim.
fn encode_object<'a>(
    object: &Object<'a>,
    layouts: &mut FieldLayouts<'a>,
) -> Option<(ContentPart, Option<Cow<'static, str>>)> {
    let class = object.text("kind").unwrap_or_default();
    let (part, standard) = content_part(&class, object)?;
    layouts.observe(&class, object);
    let Some(diff) = layouts
        .get(&class)
        .and_then(|layout| layout.diff(object, |key| expected(&part, &class, key, standard)))
    else {
        return Some((part, None));
    };
    let mut writer = ObjectWriter::default();
    // Imported data is valid base64, so it is not checked again.
    if class != "binary" && class != default_class(&part) {
        writer.text("kind", &class);
    }
    if standard {
        writer.text("alphabet", "standard");
    }
    writer.write_diff(&diff, "keys", "part");
    let entry = if writer.is_empty() { Cow::Borrowed("null") } else { Cow::Owned(writer.finish()) };
    Some((part, Some(entry)))
}

/// The content part of an item, and whether its base64 uses the standard alphabet.
fn content_part(class: &str, object: &Object<'_>) -> Option<(ContentPart, bool)> {
    let media_type = object.text("media_type").map(Cow::into_owned);
    let medium = MediaKind::of(media_type.as_deref().unwrap_or_default());
    let url = |medium: MediaKind| {
        let url = object.text("url")?.into_owned();
        let source = MediaSource { url: Some(url), ..MediaSource::default() };
        Some((medium.part(source, media_type.clone()), false))
    };
    match class {
        "image-url" => url(MediaKind::Image),
        "audio-url" => url(MediaKind::Audio),
        "video-url" => url(MediaKind::Video),
        "document-url" => url(MediaKind::File),
        "binary" => {
            let data = object.text("data")?.into_owned();
            let standard = data.bytes().any(|byte| matches!(byte, b'+' | b'/'));
            let base64 = Some(translate(data, *b"-_", *b"+/"));
            Some((medium.part(MediaSource { base64, ..MediaSource::default() }, media_type), standard))
        }
        "uploaded-file" => {
            let file_id = Some(object.text("file_id")?.into_owned());
            let provider = object.text("provider_name").map(Cow::into_owned);
            Some((
                medium.part(MediaSource { file_id, provider, ..MediaSource::default() }, media_type),
                false,
            ))
        }
        "text-content" | "structured-content" => {
            let text = object.text("content")?.into_owned();
            Some((ContentPart::Text(TextContent { text, ..TextContent::default() }), false))
        }
        _ => None,
    }
}

/// Translates base64 between its alphabets, which differ in two characters.
fn translate(data: String, from: [u8; 2], to: [u8; 2]) -> String {
    let mut bytes = data.into_bytes();
    for byte in &mut bytes {
        if let Some(index) = from.iter().position(|old| old == byte)
            && let Some(new) = to.get(index)
        {
            *byte = *new;
        }
    }
    // Both are ASCII.
    String::from_utf8(bytes).unwrap_or_default()
}

/// The expected value of an item's field, given its content part.
fn expected<'p>(part: &'p ContentPart, class: &str, key: &str, standard: bool) -> Expected<'p> {
    let text =
        |value: Option<&'p String>| value.map_or(Expected::Value(Value::NULL), |text| Expected::text(text));
    if key == "kind" {
        return Expected::Value(Value::Text(class_name(class)));
    }
    let Some(media) = media(part) else {
        return match (key, part.as_text()) {
            ("content", Some(text)) => Expected::text(text),
            _ => Expected::Default,
        };
    };
    match key {
        // Pydantic AI requires a media type for inline data.
        "media_type" if class == "binary" && media.mime.is_none() => Expected::text(guess(&media)),
        "media_type" => text(media.mime),
        "url" => text(media.url),
        "file_id" => text(media.file_id),
        "provider_name" => text(media.provider),
        "data" if standard => text(media.base64),
        "data" => match media.base64 {
            Some(data) => Expected::Value(Value::Text(Cow::Owned(translate(data.clone(), *b"+/", *b"-_")))),
            None => Expected::Default,
        },
        _ => Expected::Default,
    }
}

/// The default media type: detected from the first bytes, otherwise the most common of its kind.
fn guess(media: &MediaFields<'_>) -> &'static str {
    let detected = media.base64.and_then(|data| sniff_base64(data));
    detected.unwrap_or(match media.url_class {
        "image-url" => "image/png",
        "audio-url" => "audio/wav",
        "video-url" => "video/mp4",
        _ => "application/octet-stream",
    })
}

/// True for inline data.
pub(super) fn is_inline(part: &ContentPart) -> bool {
    default_class(part) == "binary"
}

/// The items of a user message and its attachments; `None` for plain text.
pub(super) fn user_items<'t>(
    message: &'t UserMessageAction,
    items: Option<&[Option<ItemMetadata<'t>>]>,
    layouts: &FieldLayouts<'t>,
) -> Option<Value<'t>> {
    let attached = message.attachments.as_deref().unwrap_or_default();
    let mut user_items = match &message.content {
        MessageContent::Text(_) if attached.is_empty() => return None,
        MessageContent::Text(text) => vec![Value::text(text)],
        MessageContent::Parts(parts) => decode_all(parts, items, layouts),
    };
    let item = |part| Value::Json(Cow::Owned(to_json(&decode_item(&part, None, layouts))));
    user_items.extend(attached.iter().filter_map(Attachment::part).map(item));
    Some(Value::List(user_items))
}

/// The text of a content part that has no item in a response: a Markdown link for remote files, JSON for unknown parts
/// and invalid base64.
pub(in crate::convert) fn link(part: &ContentPart) -> String {
    let index = media(part).and_then(|media| {
        let kind = media.url_class.split('-').next().unwrap_or_default();
        Some((media.name.map_or(kind, String::as_str), media.url.or(media.file_id)?))
    });
    match index {
        Some((name, index)) => format!("[{name}]({index})"),
        None => serde_json::to_string(part).unwrap_or_default(),
    }
}

/// Decodes content parts to items.
pub(super) fn decode_all<'t>(
    parts: &'t [ContentPart],
    items: Option<&[Option<ItemMetadata<'t>>]>,
    layouts: &FieldLayouts<'t>,
) -> Vec<Value<'t>> {
    let mut values = Vec::with_capacity(parts.len());
    let mut rest = parts.iter();
    for item in items.unwrap_or_default() {
        if let Some(ItemMetadata { raw: Some(raw), .. }) = item {
            values.push(Value::Raw(raw));
            continue;
        }
        let Some(part) = rest.next() else { break };
        values.push(decode_item(part, item.as_ref(), layouts));
    }
    values.extend(rest.map(|part| decode_item(part, None, layouts)));
    values
}

/// Decodes one content part to an item.
pub(super) fn decode_item<'t>(
    part: &'t ContentPart,
    item: Option<&ItemMetadata<'t>>,
    layouts: &FieldLayouts<'t>,
) -> Value<'t> {
    let class =
        item.and_then(|item| item.kind.as_ref()).map_or_else(|| default_class(part), |kind| kind.as_str());
    if class == "str" {
        return match part {
            ContentPart::Text(text) => Value::text(&text.text),
            _ => Value::Text(Cow::Owned(link(part))),
        };
    }
    let default = ItemMetadata::default();
    let item = item.unwrap_or(&default);
    let standard = item.alphabet.is_some();
    let keys = item.keys.as_ref().map(|keys| keys.0.as_slice());
    match layouts.get(class) {
        Some(layout) => {
            Value::Object(layout.rebuild(keys, &item.part.0, |key| expected(part, class, key, standard)))
        }
        None => Value::NULL,
    }
}

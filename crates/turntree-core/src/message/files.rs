//! Creates media blocks from files, URLs, bytes and texts, and reads their data.
//!
//! The media type is that of the caller, else that of the extension, else that of the first bytes.
//!
//! Spec: UPP-1.2 §8

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::content::{
    AudioBlock, Base64Source, BytesSource, DocumentBlock, DocumentSource, ImageBlock, ImageSource,
    TextSource, UrlSource, VideoBlock,
};
use super::media::{Base64Error, Binary};
use crate::json::Extra;

/// Maximum size in bytes of a file. No vendor accepts more in a request.
pub const MAX_FILE: u64 = 512 * 1024 * 1024;

/// The media type of unknown data.
const UNKNOWN: &str = "application/octet-stream";
const PDF: &str = "application/pdf";
const PLAIN_TEXT: &str = "text/plain";

/// The errors of media blocks.
#[derive(Debug, thiserror::Error)]
pub enum MediaError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}", path = path.display())]
    Unreadable {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The path is a directory, a pipe or a device.
    #[error("{path} is not a file; give the path of a file", path = path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// True for a directory.
        is_directory: bool,
    },
    /// The file is empty.
    #[error("{path} is empty; a model cannot be given an empty file", path = path.display())]
    Empty {
        /// The path.
        path: PathBuf,
    },
    /// The file is too large for a request.
    #[error(
        "{path} has more than {MAX_FILE} bytes; upload it to the vendor and refer to it by URL",
        path = path.display()
    )]
    TooLarge {
        /// The path.
        path: PathBuf,
    },
    /// The text is not base64.
    #[error("data: {0}")]
    Base64(#[from] Base64Error),
    /// The text is not a URL, or its scheme is not accepted.
    #[error("url: \"{url}\" is not {expected}")]
    NotAUrl {
        /// The beginning of the text.
        url: String,
        /// The accepted form.
        expected: &'static str,
    },
    /// The media has another form.
    #[error("the {kind} {has}; {remedy}")]
    OtherForm {
        /// The kind of media.
        kind: &'static str,
        /// The form that it has.
        has: &'static str,
        /// The remedy.
        remedy: &'static str,
    },
}

/// What the URL of an image must be.
const IMAGE_URL: &str = "a URL as https://host/picture.png; Image.from_path reads a file";

/// The kinds of media.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MediaKind {
    /// An image.
    Image,
    /// A document.
    Document,
    /// Audio.
    Audio,
    /// A video.
    Video,
}

impl MediaKind {
    /// The media type for the extension of a path or URL; None if the extension does not belong to this kind.
    ///
    /// ```
    /// use turntree_core::message::files::MediaKind;
    ///
    /// assert_eq!(MediaKind::Image.media_type("https://host/a.JPG?size=2"), Some("image/jpeg"));
    /// assert_eq!(MediaKind::Video.media_type("talk.ogg"), Some("video/ogg"));
    /// assert_eq!(MediaKind::Audio.media_type("README"), None);
    /// ```
    pub fn media_type(self, path_or_url: &str) -> Option<&'static str> {
        let path = path_or_url.split(['?', '#']).next().unwrap_or_default();
        let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
        let (_, extension) = name.rsplit_once('.')?;
        let extension = extension.to_ascii_lowercase();
        Some(match (self, extension.as_str()) {
            (Self::Image, "jpg" | "jpeg") => "image/jpeg",
            (Self::Image, "png") => "image/png",
            (Self::Image, "gif") => "image/gif",
            (Self::Image, "webp") => "image/webp",
            (Self::Image, "svg") => "image/svg+xml",
            (Self::Image, "bmp") => "image/bmp",
            (Self::Image, "ico") => "image/x-icon",
            (Self::Document, "pdf") => PDF,
            (Self::Document, "txt" | "text" | "md" | "markdown") => PLAIN_TEXT,
            (Self::Audio, "mp3") => "audio/mp3",
            (Self::Audio, "wav") => "audio/wav",
            (Self::Audio, "ogg" | "oga") => "audio/ogg",
            (Self::Audio, "flac") => "audio/flac",
            (Self::Audio, "aac") => "audio/aac",
            (Self::Audio, "m4a") => "audio/mp4",
            (Self::Audio, "webm") => "audio/webm",
            (Self::Audio, "aiff" | "aif") => "audio/aiff",
            (Self::Video, "mp4" | "m4v") => "video/mp4",
            (Self::Video, "webm") => "video/webm",
            (Self::Video, "ogv" | "ogg") => "video/ogg",
            (Self::Video, "mov") => "video/quicktime",
            (Self::Video, "avi") => "video/x-msvideo",
            (Self::Video, "mpeg" | "mpg") => "video/mpeg",
            (Self::Video, "wmv") => "video/x-ms-wmv",
            (Self::Video, "3gp" | "3gpp") => "video/3gpp",
            (Self::Video, "flv") => "video/x-flv",
            _ => return None,
        })
    }

    /// Reads a file of this kind: its data, and the media type by extension or first bytes. Blocks.
    ///
    /// # Errors
    /// [`MediaError`] naming the path.
    pub fn read(self, path: &Path) -> Result<(Binary, String), MediaError> {
        let content = read(path)?;
        let media_type = self.media_type_of(path, &content);
        Ok((Binary::new(content), media_type))
    }

    /// The media type by extension, else by the first bytes, if it belongs to this kind.
    fn media_type_of(self, path: &Path, content: &[u8]) -> String {
        let by_name = self.media_type(&path.to_string_lossy());
        let by_content = || sniff(content).filter(|media_type| self.includes(media_type));
        by_name.or_else(by_content).unwrap_or(UNKNOWN).to_owned()
    }

    fn includes(self, media_type: &str) -> bool {
        match self {
            Self::Image => media_type.starts_with("image/"),
            Self::Document => media_type == PDF,
            Self::Audio => media_type.starts_with("audio/"),
            Self::Video => media_type.starts_with("video/"),
        }
    }
}

/// The media type by the first bytes of a file.
pub fn sniff(content: &[u8]) -> Option<&'static str> {
    const MAGIC: [(usize, &[u8], &str); 14] = [
        (0, b"\x89PNG\r\n\x1a\n", "image/png"),
        (0, b"\xff\xd8\xff", "image/jpeg"),
        (0, b"GIF8", "image/gif"),
        (8, b"WEBP", "image/webp"),
        (0, b"BM", "image/bmp"),
        (0, b"\0\0\x01\0", "image/x-icon"),
        (0, b"%PDF-", PDF),
        (8, b"WAVE", "audio/wav"),
        (8, b"AIFF", "audio/aiff"),
        (0, b"OggS", "audio/ogg"),
        (0, b"fLaC", "audio/flac"),
        (0, b"ID3", "audio/mp3"),
        (8, b"AVI ", "video/x-msvideo"),
        (0, b"\x1a\x45\xdf\xa3", "video/webm"),
    ];
    let holds = |place: usize, magic: &[u8]| content.get(place..).is_some_and(|rest| rest.starts_with(magic));
    if holds(4, b"ftyp") {
        return Some(if holds(8, b"qt") { "video/quicktime" } else { "video/mp4" });
    }
    MAGIC.iter().find(|(place, magic, _)| holds(*place, magic)).map(|(_, _, media_type)| *media_type)
}

/// As [`sniff`], for base64 text; only its beginning is decoded.
pub fn sniff_base64(text: &str) -> Option<&'static str> {
    sniff(Binary::from_base64(text.get(..24)?).ok()?.as_slice())
}

/// Reads a file of at most [`MAX_FILE`] bytes. Blocks; only regular files are opened.
///
/// # Errors
/// [`MediaError`] naming the path.
pub fn read(path: &Path) -> Result<Bytes, MediaError> {
    let unreadable = |source| MediaError::Unreadable { path: path.to_owned(), source };
    let metadata = std::fs::metadata(path).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(MediaError::NotAFile { path: path.to_owned(), is_directory: metadata.is_dir() });
    }
    let mut content = Vec::with_capacity(usize::try_from(metadata.len().min(MAX_FILE)).unwrap_or_default());
    if metadata.len() <= MAX_FILE {
        File::open(path)
            .map_err(unreadable)?
            .take(MAX_FILE + 1)
            .read_to_end(&mut content)
            .map_err(unreadable)?;
    }
    if metadata.len() > MAX_FILE || content.len() as u64 > MAX_FILE {
        return Err(MediaError::TooLarge { path: path.to_owned() });
    }
    if content.is_empty() {
        return Err(MediaError::Empty { path: path.to_owned() });
    }
    Ok(content.into())
}

/// Checks that a URL has one of these schemes.
fn check_url(url: &str, schemes: &[&str], expected: &'static str) -> Result<(), MediaError> {
    let rest = schemes.iter().find_map(|scheme| {
        let (prefix, rest) = url.split_once("://")?;
        prefix.eq_ignore_ascii_case(scheme).then_some(rest)
    });
    let has_host = rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['/', '?', '#']));
    if has_host && !url.contains(|character: char| character.is_whitespace() || character.is_control()) {
        return Ok(());
    }
    Err(MediaError::NotAUrl { url: url.chars().take(80).collect(), expected })
}

/// The media type and the base64 of a `data:` URL; None for other texts.
fn data_url(url: &str) -> Option<Result<(String, String), MediaError>> {
    let rest = url.get(..5).filter(|scheme| scheme.eq_ignore_ascii_case("data:")).and(url.get(5..))?;
    let parted = rest.split_once(',').and_then(|(head, data)| {
        let media_type = head.strip_suffix(";base64")?;
        let media_type = if media_type.is_empty() { PLAIN_TEXT } else { media_type };
        Some((media_type.to_owned(), data.to_owned()))
    });
    let Some((media_type, data)) = parted else {
        let url = url.chars().take(40).collect();
        return Some(Err(MediaError::NotAUrl { url, expected: "a data: URL with base64" }));
    };
    Some(Binary::from_base64(&data).map(|_| (media_type, data)).map_err(MediaError::from))
}

fn checked(data: String) -> Result<Base64Source, MediaError> {
    Binary::from_base64(&data)?;
    Ok(Base64Source { data, extra: Extra::new() })
}

fn at_url(kind: &'static str) -> MediaError {
    MediaError::OtherForm { kind, has: "is at a URL and has no data here", remedy: "fetch it, or use to_url" }
}

fn without_url(kind: &'static str) -> MediaError {
    MediaError::OtherForm { kind, has: "has no URL", remedy: "its data is here: use to_base64 or to_text" }
}

impl ImageBlock {
    /// An image with this source.
    pub fn new(source: ImageSource, mime_type: impl Into<String>) -> Self {
        Self { source, mime_type: mime_type.into(), width: None, height: None, extra: Extra::new() }
    }

    /// Reads an image file. Blocks.
    ///
    /// # Errors
    /// As [`read`].
    pub fn from_path(path: &Path) -> Result<Self, MediaError> {
        let (data, mime_type) = MediaKind::Image.read(path)?;
        Ok(Self::from_bytes(data, mime_type))
    }

    /// An image at a URL of any scheme. A `data:` URL is decoded.
    ///
    /// # Errors
    /// [`MediaError::NotAUrl`], and [`MediaError::Base64`] for a `data:` URL.
    pub fn from_url(url: String, mime_type: Option<String>) -> Result<Self, MediaError> {
        if let Some(data) = data_url(&url) {
            let (stated, data) = data?;
            let source = Base64Source { data, extra: Extra::new() };
            return Ok(Self::new(source.into(), mime_type.unwrap_or(stated)));
        }
        let scheme = url.split_once("://").map(|(scheme, _)| scheme).unwrap_or_default();
        check_url(&url, &[scheme], IMAGE_URL)?;
        if scheme.is_empty() || !scheme.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '+')
        {
            return Err(MediaError::NotAUrl { url, expected: IMAGE_URL });
        }
        let guessed = || MediaKind::Image.media_type(&url).unwrap_or(UNKNOWN).to_owned();
        let mime_type = mime_type.unwrap_or_else(guessed);
        Ok(Self::new(UrlSource { url, extra: Extra::new() }.into(), mime_type))
    }

    /// An image in memory.
    pub fn from_bytes(data: Binary, mime_type: impl Into<String>) -> Self {
        Self::new(BytesSource { data, extra: Extra::new() }.into(), mime_type)
    }

    /// An image as base64 text.
    ///
    /// # Errors
    /// [`MediaError::Base64`].
    pub fn from_base64(data: String, mime_type: impl Into<String>) -> Result<Self, MediaError> {
        Ok(Self::new(checked(data)?.into(), mime_type))
    }

    /// True if the block contains the data, false for a URL.
    pub const fn has_data(&self) -> bool {
        matches!(self.source, ImageSource::Base64(_) | ImageSource::Bytes(_))
    }

    /// The data as base64 text.
    ///
    /// # Errors
    /// [`MediaError::OtherForm`] for an image at a URL.
    pub fn to_base64(&self) -> Result<String, MediaError> {
        let data = self.source.to_base64().ok_or_else(|| at_url("image"))?;
        Ok(data.into_owned())
    }

    /// The data.
    ///
    /// # Errors
    /// [`MediaError::OtherForm`] for an image at a URL; [`MediaError::Base64`] for invalid base64.
    pub fn to_bytes(&self) -> Result<Binary, MediaError> {
        match &self.source {
            ImageSource::Bytes(source) => Ok(source.data.clone()),
            ImageSource::Base64(source) => Ok(Binary::from_base64(&source.data)?),
            ImageSource::Url(_) | ImageSource::Unknown(_) => Err(at_url("image")),
        }
    }

    /// The data as a `data:` URL.
    ///
    /// # Errors
    /// [`MediaError::OtherForm`] for an image at a URL.
    pub fn to_data_url(&self) -> Result<String, MediaError> {
        Ok(format!("data:{};base64,{}", self.mime_type, self.to_base64()?))
    }

    /// The URL.
    ///
    /// # Errors
    /// [`MediaError::OtherForm`] for an image without a URL.
    pub fn to_url(&self) -> Result<&str, MediaError> {
        match &self.source {
            ImageSource::Url(source) => Ok(&source.url),
            _ => Err(without_url("image")),
        }
    }
}

impl DocumentBlock {
    /// A document with this source.
    pub fn new(source: DocumentSource, mime_type: impl Into<String>, title: Option<String>) -> Self {
        Self { source, mime_type: mime_type.into(), title, extra: Extra::new() }
    }

    /// Reads a document file. Its data is base64, also for text. Blocks.
    ///
    /// # Errors
    /// As [`read`].
    pub fn from_path(path: &Path, title: Option<String>) -> Result<Self, MediaError> {
        let (data, mime_type) = MediaKind::Document.read(path)?;
        Ok(Self::from_bytes(&data, mime_type, title))
    }

    /// A PDF at an http or https URL. A `data:` URL is decoded.
    ///
    /// # Errors
    /// [`MediaError::NotAUrl`], and [`MediaError::Base64`] for a `data:` URL.
    pub fn from_url(url: String, title: Option<String>) -> Result<Self, MediaError> {
        if let Some(data) = data_url(&url) {
            let (mime_type, data) = data?;
            return Ok(Self::new(Base64Source { data, extra: Extra::new() }.into(), mime_type, title));
        }
        check_url(&url, &["https", "http"], "an http or https URL; Document.from_path reads a file")?;
        Ok(Self::new(UrlSource { url, extra: Extra::new() }.into(), PDF, title))
    }

    /// A plain text document.
    pub fn from_text(text: impl Into<String>, title: Option<String>) -> Self {
        Self::new(TextSource { data: text.into(), extra: Extra::new() }.into(), PLAIN_TEXT, title)
    }

    /// A document as base64 text.
    ///
    /// # Errors
    /// [`MediaError::Base64`].
    pub fn from_base64(
        data: String,
        mime_type: impl Into<String>,
        title: Option<String>,
    ) -> Result<Self, MediaError> {
        Ok(Self::new(checked(data)?.into(), mime_type, title))
    }

    /// A document in memory.
    pub fn from_bytes(data: &Binary, mime_type: impl Into<String>, title: Option<String>) -> Self {
        Self::new(Base64Source { data: data.to_base64(), extra: Extra::new() }.into(), mime_type, title)
    }

    /// True if the block contains the data, false for a URL.
    pub const fn has_data(&self) -> bool {
        matches!(self.source, DocumentSource::Base64(_) | DocumentSource::Text(_))
    }

    /// True for a PDF.
    pub fn is_pdf(&self) -> bool {
        self.mime_type == PDF
    }

    /// True for plain text.
    pub fn is_text(&self) -> bool {
        self.mime_type == PLAIN_TEXT
    }

    /// The data as base64 text.
    ///
    /// # Errors
    /// [`MediaError::OtherForm`] for a document at a URL, and for a plain text document.
    pub fn to_base64(&self) -> Result<&str, MediaError> {
        match &self.source {
            DocumentSource::Base64(source) => Ok(&source.data),
            DocumentSource::Text(_) => {
                Err(MediaError::OtherForm { kind: "document", has: "is text", remedy: "use to_text" })
            }
            DocumentSource::Url(_) | DocumentSource::Unknown(_) => Err(at_url("document")),
        }
    }

    /// The text.
    ///
    /// # Errors
    /// [`MediaError::OtherForm`] for a document that is not plain text.
    pub fn to_text(&self) -> Result<&str, MediaError> {
        match &self.source {
            DocumentSource::Text(source) => Ok(&source.data),
            DocumentSource::Base64(_) => Err(MediaError::OtherForm {
                kind: "document",
                has: "is base64",
                remedy: "use to_base64, or to_bytes and decode them",
            }),
            DocumentSource::Url(_) | DocumentSource::Unknown(_) => Err(at_url("document")),
        }
    }

    /// The data: the bytes of the file, or the text as UTF-8.
    ///
    /// # Errors
    /// [`MediaError::OtherForm`] for a document at a URL; [`MediaError::Base64`] for invalid base64.
    pub fn to_bytes(&self) -> Result<Binary, MediaError> {
        match &self.source {
            DocumentSource::Text(source) => Ok(Binary::new(source.data.clone().into_bytes())),
            _ => Ok(Binary::from_base64(self.to_base64()?)?),
        }
    }

    /// The URL.
    ///
    /// # Errors
    /// [`MediaError::OtherForm`] for a document without a URL.
    pub fn to_url(&self) -> Result<&str, MediaError> {
        match &self.source {
            DocumentSource::Url(source) => Ok(&source.url),
            _ => Err(without_url("document")),
        }
    }
}

impl AudioBlock {
    /// Audio in memory.
    pub fn new(data: Binary, mime_type: impl Into<String>, duration: Option<f64>) -> Self {
        Self { data, mime_type: mime_type.into(), duration, extra: Extra::new() }
    }

    /// Reads an audio file. Blocks.
    ///
    /// # Errors
    /// As [`read`].
    pub fn from_path(path: &Path, duration: Option<f64>) -> Result<Self, MediaError> {
        let (data, mime_type) = MediaKind::Audio.read(path)?;
        Ok(Self::new(data, mime_type, duration))
    }

    /// The data as a `data:` URL.
    pub fn to_data_url(&self) -> String {
        format!("data:{};base64,{}", self.mime_type, self.data.to_base64())
    }
}

impl VideoBlock {
    /// A video in memory.
    pub fn new(data: Binary, mime_type: impl Into<String>) -> Self {
        let mime_type = mime_type.into();
        Self { data, mime_type, duration: None, width: None, height: None, extra: Extra::new() }
    }

    /// Reads a video file. Blocks.
    ///
    /// # Errors
    /// As [`read`].
    pub fn from_path(path: &Path) -> Result<Self, MediaError> {
        let (data, mime_type) = MediaKind::Video.read(path)?;
        Ok(Self::new(data, mime_type))
    }

    /// The data as a `data:` URL.
    pub fn to_data_url(&self) -> String {
        format!("data:{};base64,{}", self.mime_type, self.data.to_base64())
    }
}

//! Media from files, URLs and texts. UPP-1.2 §8.

use std::path::{Path, PathBuf};

use turntree::message::content::{AudioBlock, DocumentBlock, ImageBlock, VideoBlock};
use turntree::message::files::{MAX_FILE, MediaError, MediaKind, read, sniff};

/// A temporary folder, deleted on drop.
struct TempFolder(PathBuf);

impl TempFolder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("turntree-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_mime_type_of_a_file_is_detected_by_name_or_content() {
    let folder = TempFolder::new("blocks");
    let png = b"\x89PNG\r\n\x1a\nrest";

    let image = ImageBlock::from_path(&folder.file("a.JPG", png)).unwrap();
    assert_eq!((image.mime_type.as_str(), image.to_bytes().unwrap().as_slice()), ("image/jpeg", &png[..]));
    assert_eq!(ImageBlock::from_path(&folder.file("a", png)).unwrap().mime_type, "image/png");
    assert_eq!(
        ImageBlock::from_path(&folder.file("b", b"%PDF-1.7")).unwrap().mime_type,
        "application/octet-stream"
    );

    let text = DocumentBlock::from_path(&folder.file("n.md", b"hi"), Some("T".to_owned())).unwrap();
    assert!(text.is_text() && text.to_text().is_err());
    assert_eq!((text.to_base64().unwrap(), text.title.as_deref()), ("aGk=", Some("T")));
    assert!(DocumentBlock::from_path(&folder.file("p", b"%PDF-1.7"), None).unwrap().is_pdf());

    let audio = AudioBlock::from_path(&folder.file("s.m4a", b"x"), Some(1.5)).unwrap();
    assert_eq!((audio.mime_type.as_str(), audio.duration), ("audio/mp4", Some(1.5)));
    let video = VideoBlock::from_path(&folder.file("f", b"\0\0\0\x18ftypqt  ")).unwrap();
    assert_eq!(video.mime_type, "video/quicktime");
    assert!(video.to_data_url().starts_with("data:video/quicktime;base64,AAAA"));
}

#[test]
fn unreadable_files_are_errors_with_the_path() {
    let folder = TempFolder::new("errors");
    let missing = folder.0.join("missing.png");
    assert!(matches!(read(&missing), Err(MediaError::Unreadable { .. })));
    assert!(read(&missing).unwrap_err().to_string().contains("missing.png"));
    assert!(matches!(read(&folder.0), Err(MediaError::NotAFile { is_directory: true, .. })));
    assert!(matches!(read(Path::new("/dev/zero")), Err(MediaError::NotAFile { is_directory: false, .. })));
    assert!(matches!(read(&folder.file("empty.png", b"")), Err(MediaError::Empty { .. })));
    let huge = folder.file("huge.mp4", b"");
    std::fs::File::options().write(true).open(&huge).unwrap().set_len(MAX_FILE + 1).unwrap();
    assert!(matches!(read(&huge), Err(MediaError::TooLarge { .. })));
}

#[test]
fn urls_are_validated_and_data_urls_are_decoded() {
    let image = |url: &str| ImageBlock::from_url(url.to_owned(), None);
    assert_eq!(image("https://h/a.webp?x#y").unwrap().mime_type, "image/webp");
    assert_eq!(image("gs://bucket/a").unwrap().mime_type, "application/octet-stream");
    let data = image("data:image/gif;base64,R0lG").unwrap();
    assert_eq!((data.mime_type.as_str(), data.has_data()), ("image/gif", true));
    assert_eq!(data.to_data_url().unwrap(), "data:image/gif;base64,R0lG");
    for wrong in [
        "",
        "a.png",
        "https://",
        "https:///a",
        "https://h/a b",
        "://h/a",
        "data:image/png,x",
        "data:;base64,?",
    ] {
        assert!(image(wrong).is_err(), "{wrong}");
    }
    let document = |url: &str| DocumentBlock::from_url(url.to_owned(), None);
    assert!(document("HTTPS://h/a").unwrap().is_pdf());
    assert!(document("ftp://h/a").is_err());
    assert!(document("data:text/plain;base64,aGk=").unwrap().is_text());
}

#[test]
fn conversions_of_a_block_depend_on_its_source() {
    let remote = ImageBlock::from_url("https://h/a.png".to_owned(), None).unwrap();
    assert!(!remote.has_data() && remote.to_base64().is_err() && remote.to_bytes().is_err());
    assert_eq!(remote.to_url().unwrap(), "https://h/a.png");
    assert!(ImageBlock::from_base64("?".to_owned(), "image/png").is_err());
    let text = DocumentBlock::from_text("hi", None);
    assert_eq!((text.to_text().unwrap(), text.to_bytes().unwrap().as_slice()), ("hi", &b"hi"[..]));
    assert!(text.to_base64().is_err() && text.to_url().is_err() && text.has_data());
}

#[test]
fn media_types_are_detected_from_the_first_bytes() {
    assert_eq!(sniff(b"RIFF\0\0\0\0WEBPVP8 "), Some("image/webp"));
    assert_eq!(sniff(b"RIFF\0\0\0\0WAVEfmt "), Some("audio/wav"));
    assert_eq!(sniff(b"\0\0\0\x18ftypmp42"), Some("video/mp4"));
    assert_eq!(sniff(b"hello"), None);
    assert_eq!(sniff(b""), None);
    assert_eq!(MediaKind::Document.media_type("notes.markdown"), Some("text/plain"));
    assert_eq!(MediaKind::Image.media_type("/a.b/c"), None);
}

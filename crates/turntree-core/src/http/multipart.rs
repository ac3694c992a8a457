//! `multipart/form-data` bodies (RFC 7578), in memory.

use bytes::{BufMut as _, Bytes, BytesMut};
use memchr::memmem;

/// The boundary. If a part contains it, a number is appended.
const BOUNDARY: &str = "turntree-form-boundary";

/// A form with texts and files. The same parts give the same bytes.
///
/// ```
/// use turntree_core::http::Multipart;
///
/// let form = Multipart::default().text("prompt", "a fox").file("image", "image.png", "image/png", &b"\x89PNG"[..]);
/// let (content_type, body) = form.finish();
/// assert_eq!(content_type, "multipart/form-data; boundary=turntree-form-boundary");
/// assert!(body.starts_with(b"--turntree-form-boundary\r\nContent-Disposition: form-data; name=\"prompt\"\r\n\r\na fox"));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Multipart(Vec<Part>);

#[derive(Debug, Clone)]
struct Part {
    head: String,
    content: Bytes,
}

impl Multipart {
    /// Adds a text.
    #[must_use]
    pub fn text(mut self, name: &str, value: impl Into<String>) -> Self {
        let head = format!("Content-Disposition: form-data; name=\"{}\"\r\n\r\n", quoted(name));
        self.0.push(Part { head, content: value.into().into() });
        self
    }

    /// Adds a file.
    #[must_use]
    pub fn file(mut self, name: &str, file_name: &str, media_type: &str, content: impl Into<Bytes>) -> Self {
        let (name, file_name) = (quoted(name), quoted(file_name));
        let media_type = media_type.replace(['\r', '\n'], " ");
        let head = format!(
            "Content-Disposition: form-data; name=\"{name}\"; filename=\"{file_name}\"\r\n\
             Content-Type: {media_type}\r\n\r\n"
        );
        self.0.push(Part { head, content: content.into() });
        self
    }

    /// The content type, which names the boundary, and the body.
    pub fn finish(self) -> (String, Bytes) {
        let boundary = self.boundary();
        let room = self.0.iter().map(|part| part.head.len() + part.content.len() + boundary.len() + 6);
        let mut body = BytesMut::with_capacity(room.sum::<usize>() + boundary.len() + 6);
        for part in &self.0 {
            body.put_slice(format!("--{boundary}\r\n{}", part.head).as_bytes());
            body.put_slice(&part.content);
            body.put_slice(b"\r\n");
        }
        body.put_slice(format!("--{boundary}--\r\n").as_bytes());
        (format!("multipart/form-data; boundary={boundary}"), body.freeze())
    }

    /// A boundary that no part contains.
    fn boundary(&self) -> String {
        let is_free = |boundary: &String| {
            let finder = memmem::Finder::new(boundary);
            self.0.iter().all(|part| finder.find(&part.content).is_none())
        };
        let numbered = (1_u64..).map(|number| format!("{BOUNDARY}-{number}-"));
        std::iter::once(BOUNDARY.to_owned()).chain(numbered).find(is_free).unwrap_or_default()
    }
}

/// Escapes a name as browsers do: quotes and line breaks would end the header.
fn quoted(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

//! How entries are stored: large strings are moved to blobs, and the rest is compressed.
//!
//! A stored entry is one of these, by its first byte:
//!
//! | first byte | content |
//! |---|---|
//! | `{` | the entry: a JSON object |
//! | `[` | a JSON array that takes turns between texts and blobs: `["text", "address of a blob", "text", …]` |
//! | `e` | an entry that is encrypted; see [`encrypted`](crate::engines::encrypted) |
//! | `x` | one of the two, compressed with zlib (RFC 1950) and the preset dictionary `dictionary.txt` |
//!
//! The text of an array is that of all parts in order. A blob stands for the content of a JSON string, with its escapes
//! and without its quotes, so that the same attachment is stored once. A blob begins with a byte that names its encoding:
//! 0 for none, 1 for zlib without a dictionary.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::sync::Arc;

use bytes::Bytes;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use crate::digest::Digest;
use crate::engine::{Blob, Engine, Entry};
use crate::engines::encrypted::SEALED;
use crate::error::StoreError;
use turntree_core::computation::offloaded;
use turntree_core::runtime::TaskError;

/// Strings with more bytes are stored as blobs.
pub(crate) const BLOB_SIZE: usize = 256 * 1024;

/// The largest content of a blob; a compressed blob with more is refused.
const MAX_BLOB: u64 = 1 << 30;

/// What entries often contain, the most frequent parts last. It belongs to version 1 of the format and never changes.
static DICTIONARY: &[u8] = include_bytes!("dictionary.txt");

/// The largest decompressed entry.
const MAX_ENTRY: usize = 1 << 30;

const PLAIN: u8 = 0;
const ZLIB: u8 = 1;

/// An entry as it is stored.
#[derive(Debug)]
pub(crate) struct Encoded {
    pub(crate) entry: Bytes,
    pub(crate) blobs: Vec<Blob>,
    /// The size of the entry and the blobs.
    pub(crate) bytes: u64,
}

/// Moves the large strings of an entry to blobs.
pub(crate) fn encode(text: &str) -> Encoded {
    let strings = if text.len() > BLOB_SIZE { large_strings(text) } else { Vec::new() };
    let size = |bytes: &Bytes| u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    if strings.is_empty() {
        let entry = pack(text.as_bytes());
        return Encoded { bytes: size(&entry), entry, blobs: Vec::new() };
    }
    let mut blobs: Vec<Blob> = Vec::new();
    let mut parts = Vec::with_capacity(strings.len() * 2 + 1);
    let mut end = 0;
    for (start, stop) in strings {
        let content = text.get(start..stop).unwrap_or_default();
        parts.push(text.get(end..start).unwrap_or_default().to_owned());
        let address = Digest::of(content.as_bytes());
        parts.push(address.to_string());
        if blobs.iter().all(|blob| blob.address != address) {
            blobs.push(Blob { address, data: compress(content.as_bytes()) });
        }
        end = stop;
    }
    parts.push(text.get(end..).unwrap_or_default().to_owned());
    let entry = pack(&serde_json::to_vec(&parts).unwrap_or_default());
    let bytes = blobs.iter().map(|blob| size(&blob.data)).sum::<u64>().saturating_add(size(&entry));
    Encoded { entry, blobs, bytes }
}

/// Returns the texts of entries.
///
/// # Errors
/// [`StoreError::Corrupt`] if a blob is missing or damaged; those of the engine.
pub(crate) async fn decode_all(
    engine: &dyn Engine,
    session: &str,
    entries: Vec<Entry>,
) -> Result<Vec<String>, StoreError> {
    let corrupt =
        |reason: String| StoreError::Corrupt { store: engine.name(), session: session.into(), reason };
    let failed = |error: TaskError| StoreError::Failed { store: engine.name(), reason: error.to_string() };
    let unpacked = offloaded(size_of(&entries), move || unpack_all(&entries)).await.map_err(failed)?;
    let (unpacked, addresses) = unpacked.map_err(corrupt)?;
    let found =
        if addresses.is_empty() { Vec::new() } else { engine.blobs(session, addresses.clone()).await? };
    let blobs: usize = found.iter().flatten().map(Bytes::len).sum();
    let bytes = unpacked.iter().map(Vec::len).sum::<usize>().saturating_add(blobs);
    let decoded = offloaded(bytes, move || {
        let mut contents: HashMap<Digest, Arc<str>> = HashMap::with_capacity(addresses.len());
        for (address, data) in addresses.into_iter().zip(found) {
            let data = data.ok_or_else(|| format!("blob {address} is missing"))?;
            contents.insert(address, decompress(address, &data)?);
        }
        unpacked.into_iter().map(|entry| decode(entry, &contents)).collect::<Result<Vec<_>, String>>()
    });
    decoded.await.map_err(failed)?.map_err(corrupt)
}

/// Decompresses entries. Returns them with the addresses of the blobs that they refer to.
fn unpack_all(entries: &[Entry]) -> Result<(Vec<Vec<u8>>, Vec<Digest>), String> {
    let unpacked = entries.iter().map(|entry| unpack(&entry.data)).collect::<Result<Vec<_>, _>>()?;
    let mut addresses = Vec::new();
    for entry in unpacked.iter().filter(|entry| is_split(entry)) {
        addresses.extend(parts_of(entry)?.1);
    }
    addresses.sort_unstable();
    addresses.dedup();
    Ok((unpacked, addresses))
}

/// The stored size of entries, in bytes.
pub(crate) fn size_of(entries: &[Entry]) -> usize {
    entries.iter().map(|entry| entry.data.len()).sum()
}

fn is_split(data: &[u8]) -> bool {
    data.first() == Some(&b'[')
}

/// Returns the addresses of the blobs that a stored entry refers to.
///
/// # Errors
/// Why the entry cannot be read.
pub(crate) fn addresses(data: &[u8]) -> Result<Vec<Digest>, String> {
    let entry = unpack(data)?;
    if is_split(&entry) { parts_of(&entry).map(|(_, addresses)| addresses) } else { Ok(Vec::new()) }
}

/// Returns the texts and the addresses of an entry.
fn parts_of(data: &[u8]) -> Result<(Vec<String>, Vec<Digest>), String> {
    let parts: Vec<String> = serde_json::from_slice(data).map_err(|error| format!("an entry: {error}"))?;
    let (mut texts, mut addresses) = (Vec::new(), Vec::new());
    for (index, part) in parts.into_iter().enumerate() {
        if index % 2 == 0 {
            texts.push(part);
        } else {
            let address = Digest::from_hex(&part);
            addresses.push(address.ok_or_else(|| format!("\"{part}\" is not the address of a blob"))?);
        }
    }
    if texts.len() != addresses.len() + 1 {
        return Err("an entry ends with the address of a blob".to_owned());
    }
    Ok((texts, addresses))
}

fn decode(data: Vec<u8>, contents: &HashMap<Digest, Arc<str>>) -> Result<String, String> {
    if !is_split(&data) {
        return String::from_utf8(data).map_err(|error| format!("an entry is not UTF-8: {error}"));
    }
    let (texts, addresses) = parts_of(&data)?;
    let mut text = String::new();
    let mut addresses = addresses.iter();
    for part in texts {
        text.push_str(&part);
        if let Some(address) = addresses.next() {
            text.push_str(contents.get(address).ok_or_else(|| format!("blob {address} is missing"))?);
        }
    }
    Ok(text)
}

/// Returns the byte ranges of the contents of large JSON strings.
fn large_strings(text: &str) -> Vec<(usize, usize)> {
    let bytes = text.as_bytes();
    let mut ranges = Vec::new();
    let mut at = 0;
    while let Some(quote) = bytes.get(at..).and_then(|rest| memchr::memchr(b'"', rest)) {
        let start = at + quote + 1;
        let mut end = start;
        loop {
            let rest = bytes.get(end..).unwrap_or_default();
            match memchr::memchr2(b'"', b'\\', rest) {
                Some(offset) if rest.get(offset) == Some(&b'\\') => end += offset + 2,
                Some(offset) => {
                    end += offset;
                    break;
                }
                None => return ranges,
            }
        }
        if end - start > BLOB_SIZE {
            ranges.push((start, end));
        }
        at = end + 1;
    }
    ranges
}

/// Compresses an entry if that makes it smaller.
fn pack(entry: &[u8]) -> Bytes {
    pack_with(entry, &mut Compress::new(Compression::fast(), true))
        .filter(|packed| packed.len() < entry.len())
        .map_or_else(|| Bytes::copy_from_slice(entry), Bytes::from)
}

fn pack_with(entry: &[u8], compress: &mut Compress) -> Option<Vec<u8>> {
    compress.set_dictionary(DICTIONARY).ok()?;
    // Compressed data that does not fit is not smaller than the entry.
    let mut packed = Vec::with_capacity(entry.len());
    let status = compress.compress_vec(entry, &mut packed, FlushCompress::Finish).ok()?;
    (status == Status::StreamEnd).then_some(packed)
}

/// The inverse of [`pack`].
fn unpack(data: &[u8]) -> Result<Vec<u8>, String> {
    if matches!(data.first(), Some(b'{' | b'[')) {
        return Ok(data.to_vec());
    }
    if data.first() == Some(&SEALED) {
        return Err("its entries are encrypted: open the store with its keys".to_owned());
    }
    let mut decompress = Decompress::new(true);
    let mut entry = Vec::with_capacity(data.len().saturating_mul(4).max(256));
    loop {
        let read = usize::try_from(decompress.total_in()).unwrap_or(usize::MAX);
        let rest = data.get(read..).unwrap_or_default();
        match decompress.decompress_vec(rest, &mut entry, FlushDecompress::Finish) {
            Ok(Status::StreamEnd) => return Ok(entry),
            Ok(_) if entry.len() == entry.capacity() && entry.len() < MAX_ENTRY => entry.reserve(entry.len()),
            Err(error)
                if error.needs_dictionary().is_some() && decompress.set_dictionary(DICTIONARY).is_ok() => {}
            _ => return Err("an entry is not compressed correctly".to_owned()),
        }
    }
}

/// Compresses data if that saves at least a tenth.
fn compress(content: &[u8]) -> Bytes {
    let mut encoder = ZlibEncoder::new(vec![ZLIB], Compression::fast());
    let written = encoder.write_all(content).and_then(|()| encoder.finish());
    match written {
        Ok(compressed) if compressed.len() < content.len() / 10 * 9 => compressed.into(),
        _ => [&[PLAIN], content].concat().into(),
    }
}

fn decompress(address: Digest, data: &[u8]) -> Result<Arc<str>, String> {
    let damaged = || format!("blob {address} is damaged");
    let content = match data.split_first() {
        Some((&PLAIN, content)) => content.to_vec(),
        Some((&ZLIB, compressed)) => {
            let mut content = Vec::new();
            let read = ZlibDecoder::new(compressed).take(MAX_BLOB).read_to_end(&mut content);
            read.map_err(|_| damaged())?;
            content
        }
        _ => return Err(damaged()),
    };
    if Digest::of(&content) != address {
        return Err(damaged());
    }
    String::from_utf8(content).map(Arc::from).map_err(|_| damaged())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn restored(encoded: &Encoded) -> String {
        let contents =
            encoded.blobs.iter().map(|blob| (blob.address, decompress(blob.address, &blob.data).unwrap()));
        decode(unpack(&encoded.entry).unwrap(), &contents.collect()).unwrap()
    }

    #[test]
    fn small_entries_are_stored_as_they_are() {
        let encoded = encode(r#"{"a":"\"b"}"#);

        assert_eq!(&encoded.entry[..], br#"{"a":"\"b"}"#);
        assert!(encoded.blobs.is_empty());
    }

    #[test]
    fn entries_are_compressed_with_the_dictionary() {
        let text = r#"{"nodes":[{"index":0,"messages":{"keep":4,"add":[[4,5]]},"updatedAt":"2026-11-14T22:13:20.000Z"}]}"#;

        let encoded = encode(text);

        assert!(encoded.entry.len() < 60, "{}", encoded.entry.len());
        assert_eq!(encoded.entry[0], b'x');
        assert_eq!(restored(&encoded), text);
        assert!(unpack(&encoded.entry[..20]).is_err());
        assert!(unpack(b"\x00").is_err());
        assert!(unpack(b"").is_err());
    }

    #[test]
    fn the_dictionary_does_not_change() {
        assert_eq!(
            Digest::of(DICTIONARY).to_string(),
            "344975848e16d2f0735b5deb089c37be125f9edeec78f30a648453ad193f1540"
        );
    }

    #[test]
    fn a_large_string_is_stored_once_and_compressed() {
        let large = "x\\\"y".repeat(BLOB_SIZE);
        let text = format!(r#"{{"a":"{large}","b":["\\","{large}",1]}}"#);

        let encoded = encode(&text);

        assert_eq!(encoded.blobs.len(), 1);
        assert!(encoded.bytes < 20_000, "{}", encoded.bytes);
        assert_eq!(restored(&encoded), text);
    }

    #[test]
    fn a_damaged_blob_is_found() {
        let encoded = encode(&format!("{{\"a\":\"{}\"}}", "x".repeat(BLOB_SIZE + 1)));
        let blob = &encoded.blobs[0];
        let mut data = blob.data.to_vec();
        data[3] ^= 1;

        assert!(decompress(blob.address, &data).unwrap_err().contains("is damaged"));
    }
}

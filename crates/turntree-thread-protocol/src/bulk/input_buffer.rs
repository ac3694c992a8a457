//! The input buffer: small inputs on the heap, large inputs in memory-mapped pages.

use std::io::{self, Read};
use std::ops::Deref;

use memmap2::MmapMut;

/// Inputs larger than this number of bytes use pages.
pub(super) const LARGE: usize = 4 << 20;

/// A byte buffer that grows at its end.
///
/// Pages are returned to the operating system as soon as they are dropped, on any thread. An allocator would keep them
/// in the cache of the thread that read them while the document is converted. Untouched pages use no memory, so a large
/// capacity is cheap.
#[derive(Debug, Default)]
pub(super) struct InputBuffer {
    small: Vec<u8>,
    large: Option<Pages>,
}

#[derive(Debug)]
struct Pages {
    map: MmapMut,
    length: usize,
}

impl InputBuffer {
    /// Reads up to `most` more bytes and returns their number. `left` is the expected rest of the source.
    ///
    /// # Errors
    /// The errors of the source; no data is lost.
    pub(super) fn read(&mut self, source: &mut dyn Read, most: usize, left: usize) -> io::Result<usize> {
        let held = self.len();
        let room = self.large.as_ref().map_or(LARGE, |pages| pages.map.len());
        if held + most > room {
            self.move_to_pages(held.max(left).saturating_add(held + most));
        }
        if let Some(pages) = &mut self.large {
            let read = source.read(pages.map.get_mut(held..held + most).unwrap_or_default())?;
            pages.length += read;
            return Ok(read);
        }
        self.small.resize(held + most, 0);
        let read = source.read(self.small.get_mut(held..).unwrap_or_default());
        self.small.truncate(held + *read.as_ref().unwrap_or(&0));
        read
    }

    /// Moves the content to pages. If the system provides none, the content stays on the heap.
    fn move_to_pages(&mut self, capacity: usize) {
        let length = self.len();
        let Ok(mut map) = MmapMut::map_anon(capacity) else {
            if let Some(pages) = self.large.take() {
                self.small = pages.map.get(..pages.length).unwrap_or_default().to_vec();
            }
            return;
        };
        if let Some(place) = map.get_mut(..length) {
            place.copy_from_slice(self);
            *self = Self { small: Vec::new(), large: Some(Pages { map, length }) };
        }
    }

    /// Splits off the bytes after `end`.
    pub(super) fn split_off(&mut self, end: usize) -> Self {
        let rest = self.get(end..).unwrap_or_default().to_vec();
        self.small.truncate(end);
        if let Some(pages) = &mut self.large {
            pages.length = pages.length.min(end);
        }
        Self { small: rest, large: None }
    }
}

impl Deref for InputBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.large {
            Some(pages) => pages.map.get(..pages.length).unwrap_or_default(),
            None => &self.small,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{InputBuffer, LARGE};

    #[test]
    fn input_of_any_size_is_preserved() {
        for size in [0, 5, LARGE - 1, LARGE, LARGE + 1, 3 * LARGE + 17] {
            for left in [0, size / 3, size, 10 * size] {
                let expected: Vec<u8> = (0..=250).cycle().take(size).collect();
                let (mut source, mut text) = (expected.as_slice(), InputBuffer::default());
                while text.read(&mut source, 64 * 1024, left).unwrap() > 0 {}
                assert!(*text == *expected);

                let rest = text.split_off(size / 2);
                assert!([&text[..], &rest[..]].concat() == expected);
            }
        }
    }
}

//! A byte buffer in chunks: it grows without moving its content.

use std::io::{self, Write};

/// The maximum number of bytes of a chunk.
const PIECE: usize = 256 * 1024;

/// Bytes in chunks. A large document is written once and never copied to a larger buffer.
#[derive(Debug, Default)]
pub struct ChunkedBytes {
    full: Vec<Vec<u8>>,
    last: Vec<u8>,
}

/// A length to truncate to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Checkpoint {
    full: usize,
    last: usize,
}

impl ChunkedBytes {
    /// Appends bytes without copying them.
    pub fn push(&mut self, bytes: Vec<u8>) {
        if bytes.len() < PIECE / 4 {
            self.extend(&bytes);
        } else {
            let last = std::mem::take(&mut self.last);
            self.full.extend((!last.is_empty()).then_some(last));
            self.full.push(bytes);
        }
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.pieces().map(<[u8]>::len).sum()
    }

    /// True if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The chunks, in order.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.full.iter().chain(std::iter::once(&self.last)).map(Vec::as_slice)
    }

    /// The chunks, in order; each one can be freed after its use.
    pub fn into_pieces(self) -> impl Iterator<Item = Vec<u8>> {
        self.full.into_iter().chain(std::iter::once(self.last))
    }

    /// All bytes as one vector.
    pub fn to_vec(&self) -> Vec<u8> {
        self.pieces().collect::<Vec<_>>().concat()
    }

    pub(super) fn mark(&self) -> Checkpoint {
        Checkpoint { full: self.full.len(), last: self.last.len() }
    }

    /// Removes the bytes after a checkpoint.
    pub(super) fn truncate_to(&mut self, mark: Checkpoint) {
        if self.full.len() > mark.full {
            self.full.truncate(mark.full + 1);
            self.last = self.full.pop().unwrap_or_default();
        }
        self.last.truncate(mark.last);
    }

    /// Appends a copy of bytes.
    pub fn extend(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.last.len() >= PIECE {
                self.full.push(std::mem::take(&mut self.last));
            }
            let (now, later) = bytes.split_at(bytes.len().min(PIECE.saturating_sub(self.last.len()).max(1)));
            self.last.extend_from_slice(now);
            bytes = later;
        }
    }
}

impl Write for ChunkedBytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes)?;
        Ok(bytes.len())
    }

    #[inline]
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.last.len() + bytes.len() <= PIECE {
            self.last.extend_from_slice(bytes);
        } else {
            self.extend(bytes);
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{ChunkedBytes, PIECE};
    use std::io::Write as _;

    #[test]
    fn truncating_drops_complete_pieces() {
        let mut chunks = ChunkedBytes::default();
        chunks.write_all(b"data").unwrap();
        let mark = chunks.mark();

        chunks.write_all(&vec![b'x'; PIECE * 3]).unwrap();
        chunks.push(vec![b'y'; PIECE]);
        chunks.truncate_to(mark);

        assert_eq!(chunks.to_vec(), b"data");
    }
}

//! The keys of an encrypted store, and records sealed with them.
//!
//! A sealed record is, in this order: the byte `e`; one byte with the length of the key's id; the id; 12 random bytes, the
//! nonce; the ciphertext of AES-256-GCM with its tag of 16 bytes. Each session has its own keys, which HKDF-SHA256 derives
//! from the given key, so that a random nonce is not used twice with one of them: up to 2³² records of one session.

use std::fmt;
use std::sync::Arc;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Prk, Salt};
use ring::hmac::{self, HMAC_SHA256};
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::digest::Digest;
use crate::error::StoreError;

/// The number of bytes of a key.
pub const KEY_LENGTH: usize = 32;

/// The longest id of a key, in bytes.
pub const MAX_KEY_ID: usize = 64;

/// The first byte of sealed records.
pub(crate) const SEALED: u8 = b'e';

/// The salt of the derivation: it belongs to version 1 of the format.
const SALT: &[u8] = b"turntree-store encryption 1";

/// What a record is, and where it belongs: a sealed record is opened only there.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place<'a> {
    /// The entry with this revision, after the entry whose content has this digest.
    Entry { session: &'a str, revision: u64, previous: Digest },
    /// The blob with this address in the inner engine.
    Blob { session: &'a str, address: Digest },
    /// A text of the run whose id has this digest.
    Run { session: &'a str, run: Digest, text: u64 },
}

impl Place<'_> {
    const fn session(&self) -> &str {
        match self {
            Self::Entry { session, .. } | Self::Blob { session, .. } | Self::Run { session, .. } => session,
        }
    }

    /// The data that is authenticated with the record.
    fn associated_data(&self) -> Vec<u8> {
        let (kind, number, digest) = match self {
            Self::Entry { revision, previous, .. } => (0, *revision, previous),
            Self::Blob { address, .. } => (1, 0, address),
            Self::Run { run, text, .. } => (2, *text, run),
        };
        let mut data = vec![kind];
        data.extend(number.to_be_bytes());
        data.extend(digest.0);
        data.extend(self.session().as_bytes());
        data
    }
}

/// A key with its id. Its secret is never shown.
pub(super) struct Key {
    pub(super) id: Arc<str>,
    secret: Prk,
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Key").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Key {
    /// Checks an id and a key.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] if the key has another length than 32 bytes, or the id is empty, too long or not printable.
    pub(super) fn new(id: &str, bytes: &[u8]) -> Result<Self, StoreError> {
        let is_printable = id.chars().all(|letter| !letter.is_control());
        if id.is_empty() || id.len() > MAX_KEY_ID || !is_printable {
            let start: String = id.chars().take(MAX_KEY_ID).collect();
            let text =
                format!("keys: {start:?} is not the id of a key: expected 1 to {MAX_KEY_ID} printable bytes");
            return Err(StoreError::Invalid(text));
        }
        if bytes.len() != KEY_LENGTH {
            let text = format!("keys: key {id:?} has {} bytes: expected {KEY_LENGTH}", bytes.len());
            return Err(StoreError::Invalid(text));
        }
        Ok(Self { id: id.into(), secret: Salt::new(HKDF_SHA256, SALT).extract(bytes) })
    }

    fn cipher(&self, session: &str) -> Option<LessSafeKey> {
        let info = [b"records:".as_slice(), session.as_bytes()];
        let derived = self.secret.expand(&info, &AES_256_GCM).ok()?;
        Some(LessSafeKey::new(UnboundKey::from(derived)))
    }

    /// The address under which the inner engine stores a blob. Equal blobs of two sessions or stores have different ones.
    pub(super) fn address(&self, session: &str, address: Digest) -> Option<Digest> {
        let info = [b"addresses:".as_slice(), session.as_bytes()];
        let key = hmac::Key::from(self.secret.expand(&info, HMAC_SHA256).ok()?);
        Digest::from_slice(hmac::sign(&key, &address.0).as_ref())
    }

    /// Encrypts a record. `None` if the system has no random numbers.
    pub(super) fn seal(&self, place: Place<'_>, data: &[u8]) -> Option<Vec<u8>> {
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).ok()?;
        let cipher = self.cipher(place.session())?;
        let mut sealed = data.to_vec();
        let aad = Aad::from(place.associated_data());
        cipher.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut sealed).ok()?;
        let length = u8::try_from(self.id.len()).ok()?;
        Some([&[SEALED, length], self.id.as_bytes(), &nonce, &sealed].concat())
    }

    /// Decrypts what follows the id of the key in a record.
    fn open(&self, place: Place<'_>, sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut data = sealed.to_vec();
        let aad = Aad::from(place.associated_data());
        let length = self.cipher(place.session())?.open_in_place(nonce, aad, &mut data).ok()?.len();
        data.truncate(length);
        Some(data)
    }
}

/// Returns the id of the key of a record, and what follows it.
pub(super) fn key_id(record: &[u8]) -> Option<(&str, &[u8])> {
    let (&SEALED, rest) = record.split_first()? else { return None };
    let (length, rest) = rest.split_first()?;
    let (id, sealed) = rest.split_at_checked(usize::from(*length))?;
    Some((std::str::from_utf8(id).ok()?, sealed))
}

/// Decrypts a record.
///
/// # Errors
/// Why it cannot be decrypted, with the id of the key.
pub(super) fn open(keys: &[Key], place: Place<'_>, record: &[u8]) -> Result<Vec<u8>, String> {
    let what = match place {
        Place::Entry { revision, .. } => format!("entry {revision}"),
        Place::Blob { address, .. } => format!("blob {address}"),
        Place::Run { .. } => "its text".to_owned(),
    };
    if record.first() != Some(&SEALED) {
        return Err(format!("{what} is not encrypted; copy the sessions with export and load_export"));
    }
    let Some((id, sealed)) = key_id(record) else { return Err(format!("{what} is cut off")) };
    let Some(key) = keys.iter().find(|key| *key.id == *id) else {
        return Err(format!("{what} is encrypted with the key {id:?}, which was not given"));
    };
    key.open(place, sealed).ok_or_else(|| {
        format!("{what} cannot be decrypted: the key {id:?} is wrong, or the record was changed or moved")
    })
}

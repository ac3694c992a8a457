//! Events with damaged bytes: the parser refuses them or reads them, and what it reads it can write and read again.

use turntree_uamp::{ClientEvent, EventLimits, ServerEvent};

use crate::events::{CLIENT, SERVER};

/// How often each example is damaged.
const ROUNDS: usize = 200;

/// Changes, removes, inserts and repeats bytes.
pub(crate) fn damage(random: &mut fastrand::Rng, seed: &[u8]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..random.usize(1..4) {
        let at = random.usize(..bytes.len().max(1)).min(bytes.len());
        match random.u8(..4) {
            0 if at < bytes.len() => bytes[at] = random.u8(..),
            1 => bytes.truncate(at),
            2 => bytes.insert(at, *random.choice(b"{}[]\",:0-9tfn\\").unwrap()),
            _ => {
                let end = random.usize(at..=bytes.len());
                let piece = bytes[at..end].to_vec();
                let target = random.usize(..=bytes.len());
                bytes.splice(target..target, piece);
            }
        }
    }
    bytes
}

#[test]
fn damaged_events_are_refused_or_written_as_they_were_read() {
    let mut random = fastrand::Rng::with_seed(15);
    let limits = EventLimits { bytes: 8 * 1024, depth: 24, values: 512 };
    let (mut read, mut refused) = (0, 0);
    for line in CLIENT.lines().chain(SERVER.lines()) {
        for _ in 0..ROUNDS {
            let bytes = damage(&mut random, line.as_bytes());
            match ClientEvent::parse_bytes(&bytes, &limits) {
                Ok(event) => {
                    let again = ClientEvent::parse(&event.to_json(), &EventLimits::default()).unwrap();
                    assert_eq!(again, event);
                    read += 1;
                }
                Err(error) => {
                    assert!(error.to_string().starts_with("the event "), "{error}");
                    refused += 1;
                }
            }
            if let Ok(event) = ServerEvent::parse_bytes(&bytes, &limits) {
                assert_eq!(ServerEvent::parse(&event.to_json(), &EventLimits::default()).unwrap(), event);
            }
        }
    }

    assert!(read > 500 && refused > 500, "{read} read, {refused} refused");
}

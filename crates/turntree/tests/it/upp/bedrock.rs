//! Converse, the format of Amazon Bedrock, and its event streams.

use serde_json::Value;
use turntree::core::event_stream::{Decoder, EventStreamError, encode};
use turntree::upp::AwsCredentials;
use turntree::upp::dialect::{Dialect, Framing};
use turntree::upp::providers::bedrock::bedrock;

use crate::support::fixtures::{
    assert_truncated_frames_do_not_panic, decode_and_compare, encode_and_compare, errors_and_compare,
};

fn make(_options: &Value) -> Box<dyn Dialect> {
    Box::new(bedrock("eu-central-1", &AwsCredentials::default()))
}

#[test]
fn requests_encode_to_the_wire_format() {
    encode_and_compare("bedrock/requests.json", make);
}

#[test]
fn responses_decode_to_messages_complete_and_streamed() {
    decode_and_compare("bedrock/answers.json", make);
}

#[test]
fn error_bodies_and_exceptions_map_to_error_codes() {
    errors_and_compare("bedrock/errors.json", make);
}

#[test]
fn truncated_frames_are_errors() {
    assert_truncated_frames_do_not_panic("bedrock/answers.json", make);
}

#[test]
fn the_path_has_the_encoded_id_of_the_model_and_the_host_the_region() {
    let dialect = bedrock("eu-central-1", &AwsCredentials::default());
    let profile = "arn:aws:bedrock:eu-central-1:123456789012:inference-profile/eu.x";

    assert_eq!(dialect.framing(), Framing::AmazonEventStream);
    assert_eq!(dialect.endpoint().base_url, "https://bedrock-runtime.eu-central-1.amazonaws.com");
    assert_eq!(dialect.path("a.b-v1:0", false), "/model/a.b-v1%3A0/converse");
    let encoded = "arn%3Aaws%3Abedrock%3Aeu-central-1%3A123456789012%3Ainference-profile%2Feu.x";
    assert_eq!(dialect.path(profile, true), format!("/model/{encoded}/converse-stream"));
}

#[test]
fn credentials_show_no_secrets() {
    let keys = Some(("AKIDEXAMPLE".to_owned(), "secret-1".into(), Some("token-1".into())));
    let credentials = AwsCredentials { keys, ..AwsCredentials::default() };

    let shown = format!("{credentials:?} {:?}", bedrock("eu-central-1", &credentials));

    assert!(!["AKIDEXAMPLE", "secret-1", "token-1"].iter().any(|secret| shown.contains(secret)), "{shown}");
}

fn names(chunks: &[&[u8]]) -> Result<Vec<String>, EventStreamError> {
    let (mut decoder, mut names) = (Decoder::default(), Vec::new());
    for chunk in chunks {
        decoder.push(chunk, |message| {
            names.push(format!("{} {}", message.name(), message.text()));
            Ok::<_, EventStreamError>(())
        })?;
    }
    Ok(names)
}

/// The message without headers and payload, and the one with a header of each type, of the format's description.
#[test]
fn messages_of_the_description_are_read() {
    let empty = [0, 0, 0, 16, 0, 0, 0, 0, 0x05, 0xc2, 0x48, 0xeb, 0x7d, 0x98, 0xc8, 0xff];
    assert_eq!(names(&[&empty]).unwrap(), [" "]);

    let error = encode(&[(":message-type", "error"), (":error-message", "no")], b"");
    assert_eq!(names(&[&error]).unwrap(), ["error no"]);
}

#[test]
fn damaged_messages_are_errors_whatever_the_damage() {
    let message = encode(&[(":event-type", "metadata")], b"{}");
    for place in 0..message.len() {
        let mut damaged = message.clone();
        damaged[place] ^= 0x40;
        assert!(names(&[&damaged]).is_err(), "{place}");
    }
    assert_eq!(names(&[&message[..message.len() - 1]]).unwrap(), Vec::<String>::new());
    let huge = [0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0];
    assert!(matches!(names(&[&huge, &[0; 8]]), Err(EventStreamError::Checksum)));
}

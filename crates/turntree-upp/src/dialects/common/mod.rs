//! Building blocks of all dialects: request bodies, texts and media in vendors' formats, lenient types for responses,
//! and vendors' errors.
//!
//! Requests are written into bytes directly, without intermediate JSON values.
//!
//! Spec: UPP-1.2 §12, §19.0

mod body;
mod content;
mod error;
mod lenient;
mod response;
mod tool_output;

pub use body::{BodyWriter, Concatenated, ResultText, StructureSchema, refuse_choices, stream_options};
pub use content::{
    BlockLocation, DataUrl, END_OF_STREAM, MediaBytes, answer_text, audio_format, cut_short, file_id, hex,
    read_body, read_frame, read_line, system_text, tool_metadata_value,
};
pub use error::{VendorError, code_of_kind, code_of_status, without_byte_order_mark};
pub use lenient::{BoundedVec, Cost, Count, LenientText, MOST_ITEMS, if_readable};
pub use response::{ResponseParts, data_of, new_call_id};
pub use tool_output::{ResultContent, ResultPart, Unsupported, result_parts};

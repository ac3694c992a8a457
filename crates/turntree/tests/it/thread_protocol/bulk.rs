//! Bulk conversion: order, errors, framing, compression, memory limits, atomic output files.

use std::fs;
use std::io::{self, Cursor, Read, Write};
use std::num::NonZeroUsize;
use std::path::PathBuf;

use proptest::prelude::*;
use turntree::core::json::RawJson;
use turntree::core::json::canonical::CanonicalForm;
use turntree::thread_protocol::bulk::{
    BorrowedColumn, BulkError, ChunkedBytes, DocumentIssue, FilePair, Framing, InputColumn, Observer,
    ObserverError, Offsets, OnFailure, Options, OutputFile, Report, Settings, StopAtFirst, Task, files,
    format, lines, lines_to_file, open, values,
};
use turntree::thread_protocol::convert::pydantic_ai::{ImportOptions, from_pydantic_ai_json};

use crate::support::with_cases;

fn history(text: &str) -> String {
    let text = serde_json::to_string(text).unwrap();
    format!(
        "[{{\"parts\":[{{\"content\":{text},\"timestamp\":\"2026-01-01T00:00:00Z\",\"part_kind\":\"user-prompt\"}}],\
         \"timestamp\":null,\"instructions\":null,\"kind\":\"request\",\"run_id\":null,\"metadata\":null}}]"
    )
}

fn thread_of(history: &str) -> String {
    let thread = from_pydantic_ai_json(history.as_bytes(), &ImportOptions::default()).unwrap();
    String::from_utf8(thread.to_json()).unwrap()
}

fn to(name: &str, jobs: usize) -> Options {
    let options = Options::to(format::named(name).unwrap());
    Options { jobs: NonZeroUsize::new(jobs), ..options }
}

/// Skips or replaces failed documents and records them.
#[derive(Default)]
struct SkipFailures {
    seen: Vec<(Option<u64>, String, Vec<u8>)>,
    replacement: Option<Vec<u8>>,
}

impl Observer for SkipFailures {
    fn tick(&mut self, _so_far: &Report) -> Result<(), ObserverError> {
        Ok(())
    }

    fn failed(&mut self, issue: &DocumentIssue, text: &[u8]) -> Result<OnFailure, ObserverError> {
        self.seen.push((issue.line.or(issue.row), issue.rule.clone(), text.to_vec()));
        Ok(self.replacement.clone().map_or(OnFailure::Skip, OnFailure::Replace))
    }
}

fn convert(input: &str, options: &Options) -> (String, Report, SkipFailures) {
    let (mut out, mut observer) = (Vec::new(), SkipFailures::default());
    let report = lines(&mut Cursor::new(input.as_bytes()), &mut out, options, &mut observer).unwrap();
    (String::from_utf8(out).unwrap(), report, observer)
}

#[test]
fn documents_keep_their_order_and_equal_single_conversions() {
    let histories: Vec<_> =
        (0..5000).map(|n| history(&"x".repeat(n % 700).replace('x', &n.to_string()))).collect();
    let expected: String = histories.iter().map(|history| thread_of(history) + "\n").collect();

    let (out, report, _) = convert(&histories.join("\n"), &to("thread-protocol", 4));

    assert_eq!(out, expected);
    assert_eq!((report.documents, report.failed), (5000, 0));
    assert_eq!(report.bytes_in, histories.join("\n").len() as u64);
    assert_eq!(report.bytes_out, out.len() as u64);
    let (back, _, _) = convert(&out, &to("pydantic-ai", 3));
    assert_eq!(back, histories.join("\n") + "\n");
}

#[test]
fn line_ends_blank_lines_and_a_byte_order_mark_are_ignored() {
    let (one, two) = (history("one"), history("two"));

    let (out, report, _) = convert(&format!("\u{feff}{one}\r\n\n   \n{two}"), &to("thread-protocol", 2));

    assert_eq!(out, thread_of(&one) + "\n" + &thread_of(&two) + "\n");
    assert_eq!(report.documents, 2);
}

#[test]
fn failures_are_reported_with_line_and_json_pointer() {
    let good = history("x");
    let bad = "[{\"kind\":\"request\",\"parts\":[{\"content\":1}]}]";
    let input = format!("{good}\n\n{bad}\n{good}\n[\n");

    let (out, report, observer) = convert(&input, &Options { keeps_text: true, ..to("thread-protocol", 2) });

    assert_eq!(out.lines().count(), 2);
    assert_eq!((report.documents, report.failed), (2, 2));
    assert_eq!(report.errors[0].pointer, "/0/parts/0");
    assert_eq!(observer.seen[0], (Some(3), "invalid".to_owned(), bad.as_bytes().to_vec()));
    assert_eq!((observer.seen[1].0, observer.seen[1].1.as_str()), (Some(5), "json_truncated"));
    assert!(report.errors[0].to_string().starts_with("line 3: /0/parts/0: "), "{}", report.errors[0]);
}

#[test]
fn stop_at_first_writes_all_documents_before_the_failure() {
    let good = history("x");
    let (mut out, input) = (Vec::new(), format!("{good}\n{good}\nnull\n{good}\n"));

    let ended = lines(&mut Cursor::new(input), &mut out, &to("thread-protocol", 4), &mut StopAtFirst);

    let Err(BulkError::Document(issue)) = ended else { panic!("{ended:?}") };
    assert_eq!(issue.line, Some(3));
    assert_eq!(String::from_utf8(out).unwrap(), (thread_of(&good) + "\n").repeat(2));
}

#[test]
fn an_observer_can_replace_a_failed_document() {
    let good = history("x");
    let mut observer = SkipFailures { replacement: Some(b"{}".to_vec()), ..SkipFailures::default() };
    let mut out = Vec::new();

    lines(&mut Cursor::new(format!("{good}\n1\n{good}")), &mut out, &to("thread-protocol", 2), &mut observer)
        .unwrap();

    let thread = thread_of(&good);
    assert_eq!(String::from_utf8(out).unwrap(), format!("{thread}\n{{}}\n{thread}\n"));
}

#[test]
fn a_line_over_the_limit_fails_and_the_next_line_is_read() {
    let good = history("x");
    let long = history(&"y".repeat(30_000_000));
    let mut options = to("thread-protocol", 2);
    options.settings.import.limits.bytes = 10_000_000;

    let (out, report, observer) = convert(&format!("{good}\n{long}\n{good}\n"), &options);

    assert_eq!(out.lines().count(), 2);
    assert_eq!(report.failed, 1);
    assert_eq!((observer.seen[0].0, observer.seen[0].1.as_str()), (Some(2), "limit_exceeded"));
}

#[test]
fn invalid_utf8_fails_only_its_own_document() {
    let mut input = history("x").into_bytes();
    input.extend(b"\n[\"\xff\"]\n");
    input.extend(history("y").into_bytes());
    let (mut out, mut observer) = (Vec::new(), SkipFailures::default());

    let mut options = to("thread-protocol", 2);
    options.from = format::named("pydantic-ai");
    lines(&mut Cursor::new(input), &mut out, &options, &mut observer).unwrap();

    assert_eq!((observer.seen[0].0, observer.seen[0].1.as_str()), (Some(2), "invalid_utf8"));
    assert_eq!(out.split(|byte| *byte == b'\n').count(), 3);
}

#[test]
fn formats_are_detected_by_content() {
    let settings = Settings::default();
    let name = |text: &str| settings.detect(text.as_bytes()).map(|format| format.name);

    assert_eq!(name(&history("x")), Some("pydantic-ai"));
    assert_eq!(name("[]"), Some("pydantic-ai"));
    assert_eq!(name("[{\"id\":\"1\",\"role\":\"user\",\"parts\":["), Some("ui-messages"));
    assert_eq!(name(&thread_of(&history("x"))), Some("thread-protocol"));
    assert_eq!(name("{\"version\":\"1.0.0\",\"actions\":[{\"cut"), Some("thread-protocol"));
    assert_eq!(name("data: {\"type\":\"start\"}\n\n"), Some("ui-stream"));
    assert_eq!(name("\u{feff}: stream-open\r\n\r\nevent: x\r\ndata:{\"type\":"), Some("ui-stream"));
    assert_eq!(name("data: [DONE]\n\n"), Some("ui-stream"));
    assert_eq!(name("[{\"type\":\"start\"},"), Some("ui-stream"));
    assert_eq!(name("data: 7\n\n"), None);
    assert_eq!(name(": only a comment\n\n"), None);
    assert_eq!(name("{\"threadTree\":{}}"), None);
    assert_eq!(name("7"), None);
    assert_eq!(name(""), None);
}

#[test]
fn ui_streams_are_json_arrays_in_lines_and_events_in_whole_files() {
    let threads = format!("{}\n{}\n", thread_of(&history("x")), thread_of(&history("y")));
    let convert = |input: &[u8], name: &str, framing: Framing| {
        let mut out = Vec::new();
        let options = Options { framing, ..to(name, 2) };
        lines(&mut Cursor::new(input.to_vec()), &mut out, &options, &mut StopAtFirst).unwrap();
        out
    };

    let listed = convert(threads.as_bytes(), "ui-stream", Framing::Lines);
    let events = convert(thread_of(&history("x")).as_bytes(), "ui-stream", Framing::Whole);

    assert!(listed.starts_with(b"[{\"type\":\"start\""));
    assert_eq!(convert(&listed, "ui-stream", Framing::Auto), listed);
    assert!(events.starts_with(b"data: {\"type\":\"start\""));
    assert!(events.ends_with(b"data: [DONE]\n\n\n"));
    let first = convert(&listed, "thread-protocol", Framing::Auto);
    let first = first.split_inclusive(|byte| *byte == b'\n').next().unwrap();
    assert_eq!(convert(&events, "thread-protocol", Framing::Auto), first);
}

#[test]
fn an_invalid_ui_stream_is_a_failed_document() {
    for bad in
        [r#"data: {"type":"text-delta","id":"1","delta":"x"}"#, "data: {\"type\":", "data: [DONE]\n\ndata: 7"]
    {
        let mut input = Cursor::new(format!("{bad}\n\n"));
        let options = Options { framing: Framing::Whole, ..to("thread-protocol", 1) };

        let ended = lines(&mut input, &mut Vec::new(), &options, &mut StopAtFirst);

        assert!(ended.unwrap_err().to_string().contains("of the stream"), "{bad}");
    }
}

#[test]
fn an_unknown_format_is_an_error_that_lists_the_known_ones() {
    let ended =
        lines(&mut Cursor::new("{\"a\":1}\n"), &mut Vec::new(), &to("thread-protocol", 1), &mut StopAtFirst);

    let text = ended.unwrap_err().to_string();
    assert!(text.contains("pydantic-ai, thread-protocol"), "{text}");
}

#[test]
fn empty_input_has_no_documents() {
    for input in ["", "\n\n  \n", "\u{feff}"] {
        let (out, report, _) = convert(input, &to("thread-protocol", 2));
        assert_eq!((out.as_str(), report.documents, report.failed), ("", 0, 0));
    }
}

#[test]
fn framing_is_detected_by_the_first_line() {
    let pretty = history("x").replace("[{\"parts\"", "[\n{\n\"parts\"");
    let auto = Options { framing: Framing::Auto, ..to("thread-protocol", 2) };

    let (out, report, _) = convert(&pretty, &auto);
    assert_eq!((out.lines().count(), report.documents), (1, 1));
    let (out, ..) = convert(&format!("{0}\n{0}\n", history("x")), &auto);
    assert_eq!(out.lines().count(), 2);
    let whole = Options { framing: Framing::Whole, ..to("thread-protocol", 2) };
    let (_, report, observer) = convert(&format!("{0}\n{0}\n", history("x")), &whole);
    assert_eq!((report.failed, observer.seen[0].0), (1, None));
}

#[test]
fn validation_reports_issues_and_writes_no_output() {
    let mut thread = thread_of(&history("x"));
    thread = thread.replace("\"sequence\":1", "\"sequence\":7");
    let options = Options::new(Task::Validate);

    let (out, report, observer) = convert(&format!("{}\n{thread}\n", thread_of(&history("y"))), &options);

    assert_eq!(out, "");
    assert_eq!((report.documents, report.failed), (1, 1));
    assert_eq!((observer.seen[0].0, observer.seen[0].1.as_str()), (Some(2), "sequence"));
}

#[test]
fn gzip_is_read_and_written() {
    let folder = folder("gzip");
    let input: String = (0..2000).map(|n| history(&format!("number {n}")) + "\n").collect();
    let compressed = folder.join("compressed");
    let mut encoder =
        flate2::write::GzEncoder::new(fs::File::create(&compressed).unwrap(), flate2::Compression::fast());
    encoder.write_all(input.as_bytes()).unwrap();
    encoder.finish().unwrap();

    let mut out = Vec::new();
    let options = Options { gzip: true, ..to("thread-protocol", 2) };
    lines(&mut *open(&compressed).unwrap(), &mut out, &options, &mut StopAtFirst).unwrap();

    let mut text = String::new();
    flate2::read::MultiGzDecoder::new(&out[..]).read_to_string(&mut text).unwrap();
    assert_eq!(text, convert(&input, &to("thread-protocol", 1)).0);
    let whole = fs::read(&compressed).unwrap();
    fs::write(&compressed, &whole[..whole.len() / 2]).unwrap();
    let ended = lines(&mut *open(&compressed).unwrap(), &mut Vec::new(), &options, &mut StopAtFirst);
    assert!(ended.unwrap_err().to_string().contains("cut short"));
    fs::remove_dir_all(folder).unwrap();
}

/// A reader that returns `Interrupted` before each read.
struct Interrupted<R>(R, bool);

impl<R: Read> Read for Interrupted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.1 = !self.1;
        if self.1 { Err(io::ErrorKind::Interrupted.into()) } else { self.0.read(buffer) }
    }
}

#[test]
fn interrupted_reads_call_the_observer_and_lose_no_data() {
    struct CountTicks(usize, usize);
    impl Observer for CountTicks {
        fn tick(&mut self, _so_far: &Report) -> Result<(), ObserverError> {
            self.0 += 1;
            if self.0 > self.1 { Err("enough".into()) } else { Ok(()) }
        }

        fn failed(&mut self, _issue: &DocumentIssue, _text: &[u8]) -> Result<OnFailure, ObserverError> {
            Ok(OnFailure::Stop)
        }
    }
    let input = history(&"z".repeat(9000)) + "\n";
    let (mut few, mut many) = (CountTicks(0, usize::MAX), CountTicks(0, 50));
    let mut out = Vec::new();

    lines(
        &mut Interrupted(Cursor::new(input.repeat(100)), false),
        &mut out,
        &to("thread-protocol", 2),
        &mut few,
    )
    .unwrap();
    let ended = lines(
        &mut Interrupted(Cursor::new(input.repeat(9000)), false),
        &mut io::sink(),
        &to("thread-protocol", 2),
        &mut many,
    );

    assert_eq!(out.split(|byte| *byte == b'\n').count() - 1, 100);
    assert!(few.0 >= 4, "{}", few.0);
    assert!(matches!(ended, Err(BulkError::Stopped(_))));
}

#[test]
fn the_bytes_between_reading_and_writing_are_limited() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    struct Source<'a>(&'a AtomicUsize, Vec<u8>, usize);
    impl Read for Source<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let rest = &self.1[self.2 % self.1.len()..];
            let length = if self.2 >= 40_000_000 { 0 } else { rest.len().min(buffer.len()) };
            buffer[..length].copy_from_slice(&rest[..length]);
            self.2 += length;
            self.0.store(self.2, Ordering::Relaxed);
            Ok(length)
        }
    }
    struct Sink<'a>(&'a AtomicUsize, usize, usize);
    impl Write for Sink<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1 += bytes.len();
            self.2 = self.2.max(self.0.load(Ordering::Relaxed).saturating_sub(self.1));
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let read = AtomicUsize::new(0);
    // Only valid documents, because failed ones are never written and would count as pending.
    let thread = thread_of(&history(&"w".repeat(20_000))) + "\n";
    let mut sink = Sink(&read, 0, 0);

    lines(&mut Source(&read, thread.into_bytes(), 0), &mut sink, &to("thread-protocol", 2), &mut StopAtFirst)
        .unwrap();

    assert!(sink.2 < 16 << 20, "{} bytes were pending", sink.2);
}

#[test]
fn an_output_file_is_written_atomically() {
    let folder = folder("output");
    let path = folder.join("out.jsonl");

    let mut abandoned = OutputFile::create(&path, false).unwrap();
    abandoned.write_all(b"half").unwrap();
    drop(abandoned);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);

    let (mut one, mut two) =
        (OutputFile::create(&path, false).unwrap(), OutputFile::create(&path, false).unwrap());
    one.write_all(b"one").unwrap();
    two.write_all(b"two").unwrap();
    one.finish(true).unwrap();
    assert!(matches!(two.finish(true), Err(BulkError::Exists { .. })));
    assert!(matches!(OutputFile::create(&path, false), Err(BulkError::Exists { .. })));
    assert_eq!(fs::read(&path).unwrap(), b"one");

    let mut again = OutputFile::create(&path, true).unwrap();
    again.write_all(b"again").unwrap();
    again.finish(true).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"again");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn lines_go_into_a_file_that_appears_when_it_is_complete() {
    let folder = folder("lines");
    let path = folder.join("out.jsonl");
    let input = history("a");
    let options = to("thread-protocol", 1);

    let broken = lines_to_file(&mut Cursor::new("[{]"), &path, false, &options, &mut StopAtFirst);
    assert!(matches!(broken, Err(BulkError::Document(_))));
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);

    lines_to_file(&mut Cursor::new(&input), &path, false, &options, &mut StopAtFirst).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), thread_of(&input) + "\n");
    let again = lines_to_file(&mut Cursor::new(&input), &path, false, &options, &mut StopAtFirst);
    assert!(matches!(again, Err(BulkError::Exists { .. })));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn files_are_converted_in_parallel_and_fail_separately() {
    let folder = folder("files");
    let pairs: Vec<_> = (0..40)
        .map(|n| {
            let source = folder.join(format!("{n}.json"));
            match n {
                7 => fs::write(&source, "[{]").unwrap(),
                8 => {}
                n => fs::write(&source, history(&n.to_string()).replace(',', ",\n")).unwrap(),
            }
            FilePair { source, target: folder.join(format!("out/{n}.json")), overwrite: false, gzip: false }
        })
        .collect();
    let mut observer = SkipFailures::default();

    let report = files(&pairs, &to("thread-protocol", 3), &mut observer).unwrap();

    assert_eq!((report.documents, report.failed), (38, 2));
    assert_eq!(
        observer.seen.iter().map(|(_, rule, _)| rule.as_str()).collect::<Vec<_>>(),
        ["json_invalid", "io"]
    );
    assert!(report.errors[0].path.as_ref().unwrap().ends_with("7.json"));
    assert_eq!(fs::read_dir(folder.join("out")).unwrap().count(), 38);
    let again = files(&pairs, &to("thread-protocol", 3), &mut StopAtFirst);
    assert!(matches!(again, Err(BulkError::Document(issue)) if issue.rule == "exists"));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn failures_of_columns_have_row_numbers() {
    let rows: Vec<Option<Vec<u8>>> = (0..1000)
        .map(|n| match n % 10 {
            3 => None,
            4 => Some(b"null".to_vec()),
            _ => Some(history(&"c".repeat(n)).into_bytes()),
        })
        .collect();
    let mut observer = SkipFailures::default();
    let options = Options { from: format::named("pydantic-ai"), ..to("thread-protocol", 3) };

    let (column, report) = values(&rows.as_slice(), &options, &mut observer).unwrap();

    assert_eq!((column.len(), column.nulls), (1000, 200));
    assert_eq!((report.documents, report.failed), (800, 100));
    assert_eq!(observer.seen[1].0, Some(14));
    for (n, row) in rows.iter().enumerate() {
        let valid = column.validity[n / 8] & (1 << (n % 8)) != 0;
        let text = &column.data
            [usize::try_from(column.offsets[n]).unwrap()..usize::try_from(column.offsets[n + 1]).unwrap()];
        match (n % 10, row) {
            (3 | 4, _) => assert!(!valid && text.is_empty()),
            (_, Some(row)) => {
                assert!(valid);
                assert_eq!(text, thread_of(std::str::from_utf8(row).unwrap()).as_bytes());
            }
            _ => unreachable!(),
        }
    }
    let ended = values(&rows.as_slice(), &Options { first_row: 100, ..options }, &mut StopAtFirst);
    assert!(matches!(ended, Err(BulkError::Document(issue)) if issue.row == Some(104)));
}

#[test]
fn a_borrowed_column_has_the_rows_of_both_offset_types() {
    let (small, large) = ([0, 1, 3, 3, 6], [0_i64, 1, 3, 3, 6]);
    for offsets in [Offsets::Small(&small), Offsets::Large(&large)] {
        let validity = Some([0b1011_u8].as_slice());
        let column = BorrowedColumn { rows: 3, first: 1, validity, offsets, data: b"abbccc" };

        assert_eq!(column.len(), 3);
        assert_eq!([0, 1, 2].map(|row| column.get(row)), [Some(b"bb".as_slice()), None, Some(b"ccc")]);
    }
    let decreasing = Offsets::Small(&[2, 1]);
    let column = BorrowedColumn { rows: 1, first: 0, validity: None, offsets: decreasing, data: b"ab" };
    assert_eq!(column.get(0), Some(b"".as_slice()));
}

#[test]
fn every_format_has_a_unique_name_and_reads_its_own_output() {
    // Long enough to be written in chunks, and with unknown members.
    let messages = (0..300).map(|n| history(&"x".repeat(n * 7)).trim_matches(['[', ']']).to_owned());
    let many = format!("[{}]", messages.collect::<Vec<_>>().join(","));
    let mut thread = from_pydantic_ai_json(many.as_bytes(), &ImportOptions::default()).unwrap();
    thread.extra.insert("Zeta", RawJson::from_text("[1, 2]".to_owned()).unwrap());
    thread.extra.insert("\"quoted\"", RawJson::default());
    let settings = Settings::default();
    let mut names = Vec::new();

    for format in format::FORMATS {
        names.push(format.name);
        if let (Some(read), Some(write)) = (format.read, format.write) {
            let mut out = ChunkedBytes::default();
            write(thread.clone(), &settings, &mut out).unwrap();
            assert!(!out.to_vec().contains(&b'\n'), "{}", format.name);
            let expected = match format.name {
                "pydantic-ai" => Some(thread.to_pydantic_ai_json(&settings.view).unwrap()),
                "thread-protocol" => Some(thread.to_json()),
                "thread-protocol-canonical" => Some(thread.canonical_json(CanonicalForm::Exact).unwrap()),
                _ => None,
            };
            assert_eq!(expected.unwrap_or(out.to_vec()), out.to_vec(), "{}", format.name);
            read(&out.to_vec(), &settings).unwrap();
        }
    }
    names.dedup();
    assert_eq!(names.len(), format::FORMATS.len());
}

proptest! {
    #![proptest_config(with_cases(48))]

    /// The output does not depend on the number of threads or on the sizes of reads.
    #[test]
    fn the_result_is_independent_of_threads_and_chunking(
        kinds in prop::collection::vec((0_u8..6, 0_usize..40_000), 0..60),
        jobs in 1_usize..5,
        chunk in 1_usize..100_000,
    ) {
        struct Chunked(Cursor<String>, usize);
        impl Read for Chunked {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let most = self.1.min(buffer.len());
                self.0.read(&mut buffer[..most])
            }
        }
        let input: String = kinds
            .iter()
            .map(|(kind, size)| match kind {
                0 => "\n".to_owned(),
                1 => "{\"broken\": \n".to_owned(),
                2 => "[{\"kind\":\"request\"}]\r\n".to_owned(),
                _ => history(&"é".repeat(*size)) + "\n",
            })
            .collect();
        let options = Options { from: format::named("pydantic-ai"), ..to("thread-protocol", jobs) };
        let (expected, alone, seen) = convert(&input, &Options { jobs: NonZeroUsize::new(1), ..options.clone() });

        let (mut out, mut observer) = (Vec::new(), SkipFailures::default());
        let report = lines(&mut Chunked(Cursor::new(input), chunk), &mut out, &options, &mut observer).unwrap();

        prop_assert_eq!(String::from_utf8(out).unwrap(), expected);
        prop_assert_eq!(observer.seen, seen.seen);
        prop_assert_eq!((report.documents, report.failed, report.errors), (alone.documents, alone.failed, alone.errors));
    }
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("turntree-bulk-{name}-{}", std::process::id()));
    let _old = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

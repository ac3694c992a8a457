//! Validation of histories: rejects what no version of Pydantic AI accepts.
//!
//! The rules follow Pydantic AI's own validation, so that a broken history is rejected on import and not on a later
//! load. Differences between versions are accepted: messages, parts, items, members and values of later and older
//! versions are preserved.
//!
//! ```text
//! classes   the types of the members of each class     values   members and elements of JSON text, without parsing it
//! scalars   formats of numbers, times and bytes        rules    conditions on several members
//! ```

mod classes;
mod rules;
mod scalars;
mod values;

use std::borrow::Cow;

use classes::{Class, FieldType};
use values::{elements, members, text_of};

use super::model::{Kind, ModelMessage, Object, Part, Value, part_kind};
use turntree_core::json::{ParseError, PathSegment};

/// A validation error.
#[derive(Debug)]
pub(super) struct Refusal {
    /// The path, from the innermost segment outwards.
    steps: Vec<PathSegment>,
    /// The problem.
    message: String,
}

impl Refusal {
    fn new(message: String) -> Self {
        Self { steps: Vec::new(), message }
    }

    /// Converts the error to one of a history, with the index of the message.
    pub(super) fn in_message(self, index: usize) -> ParseError {
        let Self { mut steps, message } = self.under(PathSegment::Index(index));
        steps.reverse();
        ParseError::shape(steps, message)
    }

    fn under(mut self, step: PathSegment) -> Self {
        self.steps.push(step);
        self
    }

    fn under_key(self, key: &str) -> Self {
        self.under(PathSegment::Key(key.to_owned()))
    }
}

/// Validates a message.
///
/// # Errors
/// The path within the message and the problem.
pub(super) fn check(message: &ModelMessage<'_>) -> Result<(), Refusal> {
    let Some(class) = classes::of_message(message.kind.name()) else { return Ok(()) };
    check_object(&message.members, class)?;
    for (position, part) in message.parts.iter().enumerate() {
        check_part(part, &message.kind)
            .map_err(|refusal| refusal.under(PathSegment::Index(position)).under_key("parts"))?;
    }
    match &message.usage {
        Some(usage) => check_object(usage, &classes::USAGE).map_err(|refusal| refusal.under_key("usage")),
        None => Ok(()),
    }
}

fn check_part(part: &Part<'_>, kind: &Kind) -> Result<(), Refusal> {
    let part_kind = part_kind(part);
    // Only successful returns have the format of their tool kind.
    let tool_kind = part.text("tool_kind").filter(|_| {
        part.get("outcome").is_none_or(|outcome| outcome.as_text().as_deref() == Some("success"))
    });
    let Some(class) = classes::of_part(&part_kind, tool_kind.as_deref()) else { return Ok(()) };
    check_object(part, class)?;
    match rules::placement(part, &part_kind, kind) {
        Some(broken) => Err(Refusal::new(broken.to_owned())),
        None => Ok(()),
    }
}

/// Validates the members of an object. Members that the class does not list are ignored.
fn check_object(object: &Object<'_>, class: &'static Class) -> Result<(), Refusal> {
    let mut member_check = MemberCheck::new(class);
    for (key, value) in object.iter() {
        let Some(field_type) = member_check.next(key) else { continue };
        let Some(json) = value.as_json() else { continue };
        if let Err(refusal) = check_value(field_type, json) {
            // The last of repeated keys counts.
            if object.get(key).and_then(Value::as_json).is_some_and(|last| std::ptr::eq(last, json)) {
                return Err(refusal.under_key(key));
            }
        }
    }
    member_check.finish()
}

/// The members of a class that an object has.
struct MemberCheck {
    class: &'static Class,
    /// One bit per member.
    seen: u64,
    /// The index after the last member: most objects have their members in order.
    next: usize,
}

impl MemberCheck {
    const fn new(class: &'static Class) -> Self {
        Self { class, seen: 0, next: 0 }
    }

    /// The type of the member with this key, if the class has it.
    fn next(&mut self, key: &str) -> Option<&'static FieldType> {
        let members = self.class.members;
        let position = match members.get(self.next) {
            Some(member) if member.key == key => self.next,
            _ => members.iter().position(|member| member.key == key)?,
        };
        self.seen |= 1 << position;
        self.next = position + 1;
        members.get(position).map(|member| &member.field_type)
    }

    fn finish(self) -> Result<(), Refusal> {
        let mut members = self.class.members.iter().enumerate();
        match members.find(|(position, member)| member.required && self.seen & (1 << position) == 0) {
            Some((_, member)) => {
                let message =
                    format!("{} has no \"{}\"; every version needs it", self.class.name, member.key);
                Err(Refusal::new(message).under_key(member.key))
            }
            None => Ok(()),
        }
    }
}

/// Validates a value against a type. `json` must be valid JSON.
fn check_value(field_type: &FieldType, json: &str) -> Result<(), Refusal> {
    let first = json.as_bytes().first().copied().unwrap_or_default();
    let fits = match (field_type, first) {
        (FieldType::Anything, _)
        | (FieldType::OrNull(_), b'n')
        | (FieldType::TextOr(_) | FieldType::Item, b'"') => true,
        (FieldType::OrNull(field_type), _) => return check_value(field_type, json),
        (FieldType::TextOr(field_type), b'[' | b'{') if field_type.opens_with(first) => {
            return check_value(field_type, json);
        }
        (FieldType::List(each), b'[') => return check_list(each, json),
        (FieldType::Some(each), b'[') if elements(json).next().is_some() => return check_list(each, json),
        (FieldType::Digests, b'[') => return check_list(&FieldType::Text, json),
        (FieldType::Digests, _) => true,
        (FieldType::Counts, b'{') => return check_counts(json),
        (FieldType::Counts, _) => scalars::is_nothing(json),
        (FieldType::Object(class), b'{') => return check_members(class, json),
        (FieldType::Kinds(classes), b'{') => return check_kinds(classes, json),
        (FieldType::Item, b'{') => {
            let class = kind_of(json, "kind")?.as_deref().and_then(classes::of_item);
            return class.map_or(Ok(()), |class| check_members(class, json));
        }
        (FieldType::Instruction, b'{') => {
            let digest = kind_of(json, "part_kind")?.as_deref() == Some("instruction-digest");
            let class = if digest { &classes::INSTRUCTION_DIGEST } else { &classes::INSTRUCTION };
            return check_members(class, json);
        }
        (FieldType::Text | FieldType::Word, _) => first == b'"',
        (FieldType::Fields, _) => first == b'{',
        (FieldType::Time, _) => scalars::is_time(json),
        (FieldType::Duration, _) => scalars::is_duration(json),
        (FieldType::Integer, _) => scalars::is_integer(json),
        (FieldType::Number, _) => scalars::is_number(json),
        (FieldType::Decimal, _) => scalars::is_decimal(json),
        (FieldType::Boolean, _) => scalars::is_boolean(json),
        (FieldType::Base64, _) => scalars::is_base64(json),
        // Any string: later versions may have more values.
        (FieldType::Download, _) => first == b'"' || scalars::is_boolean(json),
        (FieldType::Step, _) => first == b'"' || scalars::is_integer(json),
        // Containers are handled above.
        (
            FieldType::List(_)
            | FieldType::Some(_)
            | FieldType::Object(_)
            | FieldType::Kinds(_)
            | FieldType::TextOr(_)
            | FieldType::Item
            | FieldType::Instruction,
            _,
        ) => false,
    };
    if fits {
        return Ok(());
    }
    Err(Refusal::new(format!("must be {}, not {}", field_type.description(), shown(json))))
}

fn check_kinds(classes: &[(&str, &'static Class)], json: &str) -> Result<(), Refusal> {
    let Some(kind) = kind_of(json, "kind")? else {
        return Err(Refusal::new("an object without \"kind\"; add it".to_owned()));
    };
    let class = classes.iter().find(|(name, _)| *name == kind);
    class.map_or(Ok(()), |(_, class)| check_members(class, json))
}

fn check_list(each: &FieldType, json: &str) -> Result<(), Refusal> {
    elements(json).enumerate().try_for_each(|(position, value)| {
        check_value(each, value).map_err(|refusal| refusal.under(PathSegment::Index(position)))
    })
}

/// As [`check_object`], for JSON text.
fn check_members(class: &'static Class, json: &str) -> Result<(), Refusal> {
    let mut member_check = MemberCheck::new(class);
    let mut refused: Option<(Cow<'_, str>, Refusal)> = None;
    for (key, value) in members(json) {
        let Some(field_type) = member_check.next(&key) else { continue };
        match check_value(field_type, value) {
            Err(refusal) => refused = refused.or(Some((key, refusal))),
            // The last of repeated keys counts.
            Ok(()) => refused = refused.filter(|(name, _)| *name != key),
        }
    }
    if let Some((key, refusal)) = refused {
        return Err(refusal.under_key(&key));
    }
    member_check.finish()?;
    match class.rule.and_then(|rule| rule(json)) {
        Some(broken) => Err(Refusal::new(broken.to_owned())),
        None => Ok(()),
    }
}

fn check_counts(json: &str) -> Result<(), Refusal> {
    members(json).try_for_each(|(key, value)| match check_value(&FieldType::Integer, value) {
        // The last of repeated keys counts.
        Err(refusal) if last(json, &key).is_some_and(|last| std::ptr::eq(last, value)) => {
            Err(refusal.under_key(&key))
        }
        _ => Ok(()),
    })
}

/// The last value of a key.
fn last<'a>(json: &'a str, key: &str) -> Option<&'a str> {
    members(json).filter(|(name, _)| name == key).last().map(|(_, value)| value)
}

/// The string in the member that names the class.
fn kind_of<'a>(json: &'a str, name: &str) -> Result<Option<Cow<'a, str>>, Refusal> {
    match last(json, name) {
        None => Ok(None),
        Some(kind) => match text_of(kind) {
            Some(kind) => Ok(Some(kind)),
            None => Err(Refusal::new(format!("must be a string, not {}", shown(kind))).under_key(name)),
        },
    }
}

/// True for base64 in either alphabet; Pydantic reads the standard one as URL-safe.
pub(super) fn is_base64(text: &str) -> bool {
    scalars::is_any_base64(text)
}

/// True for feedback that Pydantic AI accepts: a string or error details.
pub(super) fn is_feedback(json: &str) -> bool {
    check_value(&classes::ERRORS, json).is_ok()
}

/// The maximum number of characters of a value in an error.
const LONGEST: usize = 40;

fn shown(json: &str) -> String {
    match json.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", json.get(..end).unwrap_or_default()),
        None => json.to_owned(),
    }
}

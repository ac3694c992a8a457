//! The serializer of [`CanonicalWriter::write_value`](super::canonical::CanonicalWriter::write_value): the same JSON as
//! `serde_json` writes, in its canonical form.

use std::fmt::Display;

use serde::Serialize;
use serde::ser::{
    Error as _, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};
use serde_json::Error;

use super::canonical_writer::Output;
use super::reader::RAW_JSON;

/// Writes one value.
pub(super) struct CanonicalSerializer<'w> {
    output: Output<'w>,
    next: Next,
}

/// What the next string is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Value,
    /// The key of a member.
    Key,
    /// The JSON text of a [`RawJson`](super::RawJson).
    Raw,
}

impl<'w> CanonicalSerializer<'w> {
    pub(super) const fn new(output: Output<'w>) -> Self {
        Self { output, next: Next::Value }
    }

    #[inline]
    fn take_next(&mut self) -> Next {
        std::mem::replace(&mut self.next, Next::Value)
    }

    /// A number, or a key that is a number.
    fn digits(&mut self, digits: impl Display) {
        let digits = digits.to_string();
        match self.take_next() {
            Next::Key => self.output.key(&digits),
            Next::Value | Next::Raw => self.output.number(&digits),
        }
    }

    /// Starts a container. A key must not be one.
    fn open(&mut self, is_object: bool) -> Result<Container<'_, 'w>, Error> {
        if self.take_next() == Next::Key {
            return Err(Error::custom("key must be a string"));
        }
        self.output.open(is_object);
        Ok(Container { serializer: self, levels: 1 })
    }

    /// Starts a container that is the only member of an object.
    fn open_variant(&mut self, variant: &str, is_object: bool) -> Result<Container<'_, 'w>, Error> {
        let outer = self.open(true)?;
        outer.serializer.output.key(variant);
        outer.serializer.output.open(is_object);
        Ok(Container { serializer: outer.serializer, levels: 2 })
    }
}

impl<'s, 'w> Serializer for &'s mut CanonicalSerializer<'w> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Container<'s, 'w>;
    type SerializeTuple = Container<'s, 'w>;
    type SerializeTupleStruct = Container<'s, 'w>;
    type SerializeTupleVariant = Container<'s, 'w>;
    type SerializeMap = Container<'s, 'w>;
    type SerializeStruct = Container<'s, 'w>;
    type SerializeStructVariant = Container<'s, 'w>;

    fn serialize_bool(self, value: bool) -> Result<(), Error> {
        match self.take_next() {
            Next::Key => self.output.key(if value { "true" } else { "false" }),
            Next::Value | Next::Raw => self.output.bool(value),
        }
        Ok(())
    }

    fn serialize_i8(self, value: i8) -> Result<(), Error> {
        self.serialize_i64(value.into())
    }

    fn serialize_i16(self, value: i16) -> Result<(), Error> {
        self.serialize_i64(value.into())
    }

    fn serialize_i32(self, value: i32) -> Result<(), Error> {
        self.serialize_i64(value.into())
    }

    fn serialize_i64(self, value: i64) -> Result<(), Error> {
        self.digits(value);
        Ok(())
    }

    fn serialize_i128(self, value: i128) -> Result<(), Error> {
        self.digits(value);
        Ok(())
    }

    fn serialize_u8(self, value: u8) -> Result<(), Error> {
        self.serialize_u64(value.into())
    }

    fn serialize_u16(self, value: u16) -> Result<(), Error> {
        self.serialize_u64(value.into())
    }

    fn serialize_u32(self, value: u32) -> Result<(), Error> {
        self.serialize_u64(value.into())
    }

    fn serialize_u64(self, value: u64) -> Result<(), Error> {
        self.digits(value);
        Ok(())
    }

    fn serialize_u128(self, value: u128) -> Result<(), Error> {
        self.digits(value);
        Ok(())
    }

    fn serialize_f32(self, value: f32) -> Result<(), Error> {
        if !value.is_finite() {
            return self.serialize_unit();
        }
        self.digits(serde_json::to_string(&value)?);
        Ok(())
    }

    fn serialize_f64(self, value: f64) -> Result<(), Error> {
        if !value.is_finite() {
            return self.serialize_unit();
        }
        self.digits(serde_json::to_string(&value)?);
        Ok(())
    }

    fn serialize_char(self, value: char) -> Result<(), Error> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    #[inline]
    fn serialize_str(self, text: &str) -> Result<(), Error> {
        match self.take_next() {
            Next::Value => self.output.string(text),
            Next::Key => self.output.key(text),
            Next::Raw => self.output.tokens(text),
        }
        Ok(())
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<(), Error> {
        self.collect_seq(bytes)
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        if self.take_next() == Next::Key {
            return Err(Error::custom("key must be a string"));
        }
        self.output.null();
        Ok(())
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Error> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        if name == RAW_JSON {
            self.next = Next::Raw;
        }
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        let container = self.open(true)?;
        container.serializer.output.key(variant);
        value.serialize(&mut *container.serializer)?;
        container.close();
        Ok(())
    }

    fn serialize_seq(self, _length: Option<usize>) -> Result<Container<'s, 'w>, Error> {
        self.open(false)
    }

    fn serialize_tuple(self, _length: usize) -> Result<Container<'s, 'w>, Error> {
        self.open(false)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Container<'s, 'w>, Error> {
        self.open(false)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Container<'s, 'w>, Error> {
        self.open_variant(variant, false)
    }

    #[inline]
    fn serialize_map(self, _length: Option<usize>) -> Result<Container<'s, 'w>, Error> {
        self.open(true)
    }

    fn serialize_struct(self, _name: &'static str, _length: usize) -> Result<Container<'s, 'w>, Error> {
        if self.next == Next::Raw {
            // A `RawValue` is a struct whose only field is the text.
            return Ok(Container { serializer: self, levels: 0 });
        }
        self.open(true)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Container<'s, 'w>, Error> {
        self.open_variant(variant, true)
    }
}

/// An open array or object, or the struct of a raw value.
pub(super) struct Container<'s, 'w> {
    serializer: &'s mut CanonicalSerializer<'w>,
    /// The containers to close: 2 for an enum variant with fields, 0 for a raw value.
    levels: usize,
}

impl Container<'_, '_> {
    fn element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        value.serialize(&mut *self.serializer)
    }

    #[inline]
    fn member_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        if self.serializer.output.replaces_value() {
            return Ok(());
        }
        value.serialize(&mut *self.serializer)
    }

    fn field<T: Serialize + ?Sized>(&mut self, key: &str, value: &T) -> Result<(), Error> {
        if self.levels > 0 {
            self.serializer.output.key(key);
        }
        self.member_value(value)
    }

    fn close(self) {
        (0..self.levels).for_each(|_| self.serializer.output.close());
    }
}

impl SerializeMap for Container<'_, '_> {
    type Ok = ();
    type Error = Error;

    #[inline]
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.serializer.next = Next::Key;
        key.serialize(&mut *self.serializer)
    }

    #[inline]
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.member_value(value)
    }

    fn end(self) -> Result<(), Error> {
        self.close();
        Ok(())
    }
}

/// Implements a trait of arrays or objects with one method.
macro_rules! container {
    ($name:ident, $method:ident) => {
        impl $name for Container<'_, '_> {
            type Ok = ();
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                self.element(value)
            }

            fn end(self) -> Result<(), Error> {
                self.close();
                Ok(())
            }
        }
    };
    ($name:ident) => {
        impl $name for Container<'_, '_> {
            type Ok = ();
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                key: &'static str,
                value: &T,
            ) -> Result<(), Error> {
                self.field(key, value)
            }

            fn end(self) -> Result<(), Error> {
                self.close();
                Ok(())
            }
        }
    };
}

container!(SerializeSeq, serialize_element);
container!(SerializeTuple, serialize_element);
container!(SerializeTupleStruct, serialize_field);
container!(SerializeTupleVariant, serialize_field);
container!(SerializeStruct);
container!(SerializeStructVariant);

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Serialize;

    use crate::json::canonical::{CanonicalForm, CanonicalWriter, canonical};
    use crate::json::{RawJson, RawObject};

    #[derive(Serialize)]
    enum Kind {
        Unit,
        One(RawJson),
        Two(u8, &'static str),
        Fields { z: f32, a: Option<char> },
    }

    #[derive(Serialize)]
    struct Wrapped(RawObject);

    #[derive(Serialize)]
    struct Everything {
        timestamp: &'static str,
        kinds: Vec<Kind>,
        numbers: (i64, u64, f64, i128, f64),
        raw: Wrapped,
        by_number: BTreeMap<i32, bool>,
        by_text: BTreeMap<&'static str, bool>,
        bytes: [u8; 3],
        nothing: Option<()>,
        a: &'static str,
    }

    fn everything() -> Everything {
        let raw = |text: &str| RawJson::from_text(text.to_owned()).unwrap();
        let kinds = vec![
            Kind::Unit,
            Kind::One(raw(r#"{"b":[1.50,{"d":1,"c":-0}],"a":"\ud800 é","__proto__":1,"a":2}"#)),
            Kind::Two(7, "\u{1F600}\n\""),
            Kind::Fields { z: 0.1, a: Some('é') },
        ];
        let members = [
            ("z", raw("1e400")),
            ("\u{FB33}", raw("[]")),
            ("\u{1F600}", raw(r#""x""#)),
            ("é\\", raw("null")),
        ];
        Everything {
            timestamp: "now",
            kinds,
            numbers: (-9_007_199_254_740_993, u64::MAX, 1e21, i128::from(i64::MIN), f64::NAN),
            raw: Wrapped(members.into_iter().collect()),
            by_number: (-2..12).map(|number| (number, number > 0)).collect(),
            by_text: [("__proto__", true), ("", false), ("long key with more than eight bytes", true)].into(),
            bytes: [0, 10, 255],
            nothing: None,
            a: "",
        }
    }

    #[test]
    fn a_value_has_the_canonical_form_of_its_json() {
        let value = everything();
        let json = serde_json::to_string(&value).unwrap();
        for form in [CanonicalForm::Exact, CanonicalForm::JavaScript] {
            let mut writer = CanonicalWriter::new(form);
            // Twice: the buffers of the first value must not matter.
            for _ in 0..2 {
                let mut out = b"before".to_vec();
                writer.write_value(&mut out, &value, None).unwrap();
                let expected = [b"before".as_slice(), &canonical(&json, form)].concat();
                assert_eq!(String::from_utf8(out), String::from_utf8(expected));
            }
        }
    }

    #[test]
    fn a_member_of_the_outermost_object_is_replaced() {
        let value = everything();
        let json = serde_json::to_string(&value).unwrap();
        let mut writer = CanonicalWriter::new(CanonicalForm::Exact);
        let (mut one, mut two) = (Vec::new(), Vec::new());
        for (out, text) in [(&mut one, None), (&mut two, Some(&json))] {
            let mut write = |out: &mut Vec<u8>| out.extend_from_slice(b"42");
            match text {
                None => writer.write_value(out, &value, Some(("timestamp", &mut write))).unwrap(),
                Some(text) => writer.write_text(out, text, Some(("timestamp", &mut write))),
            }
        }

        assert_eq!(String::from_utf8(one.clone()), String::from_utf8(two));
        assert!(String::from_utf8(one).unwrap().contains("\"timestamp\":42"));
    }

    #[test]
    fn keys_that_are_not_texts_are_refused_and_the_writer_can_be_used_again() {
        let mut writer = CanonicalWriter::new(CanonicalForm::Exact);
        let keys = BTreeMap::from([(vec![1], 1)]);
        assert!(writer.write_value(&mut Vec::new(), &[(1, keys)], None).is_err());

        let mut out = Vec::new();
        writer.write_value(&mut out, &[1], None).unwrap();
        assert_eq!(out, b"[1]");
    }
}
